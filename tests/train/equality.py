"""What "equal to one process" means, and runs of many configurations in one launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lab_utils import TrainConfig


@dataclass(frozen=True)
class Run:
    """A run's global mean losses and its first step's gradients by name."""

    losses: list[float]
    gradients: dict[str, np.ndarray]


def loss_error(run: Run, reference: Run, steps: int | None = None) -> float:
    """The largest relative difference of a loss."""
    return max(abs(a - b) / abs(b) for a, b in zip(run.losses[:steps], reference.losses[:steps], strict=True))


def gradient_error(run: Run, reference: Run) -> float:
    """Norm of the difference ÷ norm, over all parameters together: single ones may be zero in truth (a key's bias is)."""
    assert list(run.gradients) == list(reference.gradients)
    double = {name: (run.gradients[name].astype(np.float64), reference.gradients[name].astype(np.float64)) for name in run.gradients}
    return math.sqrt(sum(np.sum((a - b) ** 2) for a, b in double.values()) / sum(np.sum(b**2) for _, b in double.values()))


def check_equal(run: Run, reference: Run) -> tuple[float, float, float]:
    """Raise AssertionError unless the run equals the reference; returns the errors (5 losses, all losses, gradients)."""
    errors = loss_error(run, reference, 5), loss_error(run, reference), gradient_error(run, reference)
    assert errors[0] <= 1e-6, f"losses of the first 5 steps differ by {errors[0]:.1e}"
    assert errors[1] <= 1e-4, f"losses differ by {errors[1]:.1e}"
    assert errors[2] <= 1e-6, f"first gradients differ by {errors[2]:.1e} of their norm"
    return errors


def runs_on_rank(cases: list[tuple[TrainConfig, str]]) -> list[tuple[list[float], dict[str, np.ndarray]]]:
    """On a rank: this rank's loss sums, and on rank 0 the gradients, of each (config, engine)."""
    from lab_utils.train.loop import run_rank

    results = [run_rank(config, engine, keep_gradients=True) for config, engine in cases]
    return [(result.loss_sums, result.gradients) for result in results]


def together(cases: list[tuple[TrainConfig, str]], by_rank: list[list[tuple]]) -> list[Run]:
    """Put the ranks' shares of each case together."""
    return [
        Run([sum(sums) / (config.global_batch * config.model.seq) for sums in zip(*(rank[i][0] for rank in by_rank), strict=True)], by_rank[0][i][1])
        for i, (config, _) in enumerate(cases)
    ]
