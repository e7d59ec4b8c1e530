"""Runs of our engine at rates of one's own, which can be left at a checkpoint and taken up again:
what the engine's own schedules do not offer.

All of it on one rank, inside `launch(…, 1, …)`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...config import TrainConfig
from ...data.loader import MicroBatch
from ...engines.ours import engine_here

HELD_OUT = 128  # sequences
_FAR = 40_000  # the first of them, far behind what any run here reads

Rate = Callable[[int], float]  # of an update, by its number from 0


class Checkpoint(NamedTuple):
    """All that a run needs to go on: the number of updates so far, weights, optimizer states."""

    updates: int
    weights: list[Tensor]
    optimizers: list[dict[str, Any]]


class Run:
    """One training run. `losses[i]` is the mean loss (nats a token) of the batch of update i,
    before that update."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.engine, self.loader = engine_here(config)
        self.losses: list[float] = []

    def train(self, until: int, rate: Rate) -> None:
        """Train at these rates until `until` updates are done in all."""
        updates = self.engine.updates
        updates.rate = rate
        while updates.updates < until:
            batch = self.loader.batch(updates.updates)
            total = self.engine.forward_backward(batch)
            self.losses.append(total / batch.global_tokens)
            self.engine.update()

    def checkpoint(self) -> Checkpoint:
        """A copy of where the run stands."""
        updates = self.engine.updates
        return Checkpoint(
            updates.updates,
            [weight.clone() for weight in updates.weights],
            [copy.deepcopy(optimizer.state_dict()) for optimizer in updates.optimizers],
        )

    def go_back(self, to: Checkpoint) -> None:
        """Stand again where the run stood."""
        updates = self.engine.updates
        updates.updates = to.updates
        del self.losses[to.updates :]
        with torch.no_grad():
            for weight, kept in zip(updates.weights, to.weights, strict=True):
                weight.copy_(kept)
        for optimizer, state in zip(updates.optimizers, to.optimizers, strict=True):
            optimizer.load_state_dict(copy.deepcopy(state))

    def held_out(self) -> float:
        """Mean loss on text that no run of this seed has seen."""
        micro = self.unseen(HELD_OUT)
        with torch.no_grad():
            loss, count = self.engine.model(micro.tokens, micro.targets)
        return (loss / count).item()

    def unseen(self, sequences: int) -> MicroBatch:
        """The first of the sequences that are held out, as one micro-batch."""
        rows = torch.tensor(
            [self.loader.windows[_FAR + i].tolist() for i in range(sequences)], dtype=torch.int64
        )
        return MicroBatch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())
