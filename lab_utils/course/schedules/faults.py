"""torch's schedulers in a training loop that calls them rightly or wrongly: the rate with which
each update really moves the weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

Make = Callable[[Optimizer], LRScheduler]
MICRO_BATCHES = RANKS = 4


def warmup_linear(warmup: int, total: int) -> Make:
    """The schedule that nearly every training script has: `get_scheduler("linear", …)` of
    transformers, and the LambdaLR of many articles. `done` counts its calls of `step`."""

    def share(done: int) -> float:
        if done < warmup:
            return done / warmup
        return max(0.0, (total - done) / (total - warmup))

    return lambda optimizer: LambdaLR(optimizer, share)


def cosine(total: int) -> Make:
    """torch's CosineAnnealingLR, to 0 in `total` steps of its own; it has no warm-up."""
    return lambda optimizer: CosineAnnealingLR(optimizer, T_max=total)


def rates(
    make: Make,
    updates: int,
    *,
    micro_batches: int = 1,
    each_micro_batch: bool = False,
    scheduler_first: bool = False,
    skipped: Container[int] = (),
) -> list[float]:
    """The learning rates, as shares of the peak, with which the optimizer was called in this many
    steps; in a `skipped` one the scaler does not call it."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, found = make(optimizer), []
    for step in range(updates):
        for micro in range(micro_batches):
            last = micro == micro_batches - 1
            if last and scheduler_first:
                scheduler.step()
            if last and step not in skipped:
                found.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
            if each_micro_batch or (last and not scheduler_first):
                scheduler.step()
    return found


def faulty(steps: int, warmup: int) -> dict[str, list[float]]:
    """Each fault by name: its rates in a run of `steps` updates. "right" is the usual schedule,
    called as it should be."""
    usual, per_micro_batch = (
        warmup_linear(warmup, steps),
        dict(micro_batches=MICRO_BATCHES, each_micro_batch=True),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "right": rates(usual, steps),
            "micro": rates(usual, steps, **per_micro_batch),
            "micro_cosine": rates(cosine(steps), steps, **per_micro_batch),
            "one_rank": rates(warmup_linear(warmup, RANKS * steps), steps),
            "first": rates(usual, steps, scheduler_first=True),
            "skipped": rates(usual, steps + 8, skipped=range(8)),
        }
