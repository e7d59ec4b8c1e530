"""The first step's gradients as a file, put together from what the ranks brought home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..config import TrainConfig
from ..files import write
from ..i18n import t
from ..layout.parameters import parameter_shapes
from ..report import Report

if TYPE_CHECKING:
    from .loop import RankResult


class GradientsNotWrittenError(OSError):
    """The run is over and its gradients could not be written; `report` is what it measured."""

    def __init__(self, message: str, report: Report) -> None:
        super().__init__(message)
        self.report = report


def save_gradients(
    path: Path, config: TrainConfig, results: list[RankResult], report: Report
) -> None:
    """Write them to `path` (NumPy .npz, by parameter name, before clipping), whole or not at
    all."""
    import numpy

    from ..engines.fragments import assemble

    whole = assemble((f for r in results for f in r.gradients), parameter_shapes(config.model))
    try:
        write(path, lambda file: numpy.savez(file, **whole))
    except OSError as error:
        raise GradientsNotWrittenError(
            t(
                f"the run is over, but its gradients could not be written to {path}"
                f" ({error.strerror or error}).",
                f"训练已完成，但梯度无法写入 {path}（{error.strerror or error}）。",
            ),
            report,
        ) from error
