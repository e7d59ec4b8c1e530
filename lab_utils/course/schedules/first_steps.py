"""Adam's first steps, measured: how good its second moment is after t gradients, and how far the
weights move.

Liu et al. 2020 ("On the variance of the adaptive learning rate and beyond") blame the first, Ma and
Yarats 2021 ("On the adequacy of untuned warmup for adaptive optimization") the second.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ...config import TrainConfig
from ...engines.optimizer import BETAS
from .runs import Run

REFERENCE = 64  # batches from which the second moment is taken as known


class FirstSteps(NamedTuple):
    """A value for each update. `doubled`: the share of weights whose 1/√v̂ is more than twice what
    it would be with the second moment of REFERENCE batches (weights left as they were drawn).
    `moved`: root mean square of what the update moved, in units of the learning rate."""

    doubled: list[float]
    moved: list[float]


def first_steps(config: TrainConfig) -> FirstSteps:
    """Measure `config.steps` updates of its Adam at a constant rate, on this one rank."""
    run = Run(config)
    squares = [run_gradient(run, step).square() for step in range(REFERENCE)]
    known, v, doubled = torch.stack(squares).mean(0), torch.zeros_like(squares[0]), []
    for t, square in enumerate(squares[: config.steps], start=1):
        v = BETAS[1] * v + (1 - BETAS[1]) * square
        unbiased = v / (1 - BETAS[1] ** t)
        used = known > 0  # of an embedding only the rows that occur
        doubled.append((unbiased[used] < known[used] / 4).double().mean().item())
    return FirstSteps(doubled, _moved(run))


def run_gradient(run: Run, step: int) -> Tensor:
    """The gradient of one batch at the run's weights, flat; nothing is updated."""
    run.engine.forward_backward(run.loader.batch(step))
    return torch.cat([o.gradient().flatten() for o in run.engine.optimizer_shards]).clone()


def _moved(run: Run) -> list[float]:
    found, weights = [], run.engine.updates.weights
    for step in range(run.config.steps):
        before = torch.cat([w.flatten() for w in weights])
        run.train(step + 1, lambda _: run.config.lr)
        change = torch.cat([w.flatten() for w in weights]) - before
        found.append(change.double().square().mean().sqrt().item() / run.config.lr)
    return found
