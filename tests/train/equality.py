"""What "equal to one process" means, and runs of many configurations in one launch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lab_utils import TrainConfig
from lab_utils.engines.fragments import assemble
from lab_utils.layout.parameters import parameter_shapes
from lab_utils.report import RankReport

if TYPE_CHECKING:
    from lab_utils.train.loop import RankResult


@dataclass(frozen=True)
class Run:
    """A run's global mean losses, its first step's gradients by name, and what its ranks
    reported."""

    losses: list[float]
    gradients: dict[str, np.ndarray]
    ranks: tuple[RankReport, ...] = ()
    flops: dict[str, int] = field(default_factory=dict)


def loss_error(run: Run, reference: Run, steps: int | None = None) -> float:
    """The largest relative difference of a loss."""
    return max(
        abs(a - b) / abs(b)
        for a, b in zip(run.losses[:steps], reference.losses[:steps], strict=True)
    )


def gradient_error(run: Run, reference: Run) -> float:
    """Norm of the difference ÷ norm, over all parameters together: single ones may be zero in truth
    (a key's bias is)."""
    assert list(run.gradients) == list(reference.gradients)
    double = {
        name: (run.gradients[name].astype(np.float64), reference.gradients[name].astype(np.float64))
        for name in run.gradients
    }
    return math.sqrt(
        sum(np.sum((a - b) ** 2) for a, b in double.values())
        / sum(np.sum(b**2) for _, b in double.values())
    )


def check_equal(run: Run, reference: Run) -> tuple[float, float, float]:
    """Raise AssertionError unless the run equals the reference; returns the errors (5 losses, all
    losses, gradients)."""
    errors = (
        loss_error(run, reference, 5),
        loss_error(run, reference),
        gradient_error(run, reference),
    )
    assert errors[0] <= 1e-6, f"losses of the first 5 steps differ by {errors[0]:.1e}"
    assert errors[1] <= 1e-4, f"losses differ by {errors[1]:.1e}"
    assert errors[2] <= 1e-6, f"first gradients differ by {errors[2]:.1e} of their norm"
    return errors


def runs_on_rank(cases: list[tuple[TrainConfig, str]]) -> list[RankResult]:
    """On a rank: what it brings home from each (config, engine), the first gradients included."""
    from lab_utils.train.loop import run_rank

    return [run_rank(config, engine, keep_gradients=True) for config, engine in cases]


def together(cases: list[tuple[TrainConfig, str]], by_rank: list[list[RankResult]]) -> list[Run]:
    """Put the ranks' shares of each case together."""
    runs = []
    for i, (config, _) in enumerate(cases):
        results = [rank[i] for rank in by_rank]
        tokens = config.global_batch * config.model.seq
        losses = [sum(sums) / tokens for sums in zip(*(r.loss_sums for r in results), strict=True)]
        gradients = assemble(
            (f for r in results for f in r.gradients), parameter_shapes(config.model)
        )
        runs.append(
            Run(
                losses,
                gradients,
                tuple(r.report for r in results),
                {k: sum(r.flops[k] for r in results) for k in ("model", "hardware")},
            )
        )
    return runs
