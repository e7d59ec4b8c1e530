"""The run that exercise 4 branches: a small GPT with dropout, each update of which is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .right import right_factor
from .small import Data, SmallGPT


@dataclass
class Schedule:
    """The rate of every update: constant after a warm-up while `horizon` is None; with a horizon
    the last `cooldown` updates before it fall to 0, with 1 − √t."""

    peak: float
    warmup: int
    horizon: int | None = None
    cooldown: int = 0

    def rate(self, update: int) -> float:
        """Of update number `update`, from 0."""
        if self.horizon is None:
            return self.peak * min(1.0, (update + 1) / self.warmup)
        plan = (self.horizon, self.warmup, 0.0, self.cooldown)
        return self.peak * right_factor("wsd", update, *plan)


class Entry(NamedTuple):
    """What an update began with, and of which run it is."""

    of: int
    horizon: int | None
    update: int
    rate: float
    position: int
    random: bytes
    weights: Tensor
    moments: Tensor


@dataclass
class Book:
    """All updates of all runs, in the order in which they were made; a copied run writes into the
    same book."""

    entries: list[Entry] = field(default_factory=list)

    def __deepcopy__(self, _: Any) -> Book:
        return self


class Run:
    """A run of training. The random numbers of its dropout come from torch's global generator."""

    def __init__(self, seed: int, book: Book) -> None:
        self.seed, self.book = seed, book
        self.model = SmallGPT(seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), weight_decay=0.01)
        self.data, self.schedule, self.updates = Data(seed), Schedule(0.01, 3), 0

    def fresh(self) -> Run:
        """Another run, at update 0: its first weights, a schedule of its own."""
        return Run(self.seed, self.book)

    def update(self) -> float:
        """One update with the schedule's rate; returns the loss."""
        rate = self.schedule.rate(self.updates)
        self.book.entries.append(self._entry(rate))
        self.optimizer.zero_grad()
        loss = self.model(*self.data.next())
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()
        self.updates += 1
        return loss.item()

    def state_dict(self) -> dict[str, Any]:
        """The run's state, its tensors as torch gives them: the live ones."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "position": self.data.position,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state`. The model copies its tensors; torch's optimizers keep those that they
        are given."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.data.position, self.updates = state["position"], state["updates"]

    def weights(self) -> Tensor:
        """All of them, a copy, end to end."""
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])

    def _moments(self) -> Tensor:
        found = [
            self.optimizer.state[p][name].double().flatten()
            for p in self.model.parameters()
            if p in self.optimizer.state
            for name in ("exp_avg", "exp_avg_sq", "step")
        ]
        return torch.cat(found) if found else torch.zeros(1, dtype=torch.float64)

    def _entry(self, rate: float) -> Entry:
        random = torch.get_rng_state().numpy().tobytes()
        where = (id(self), self.schedule.horizon, self.updates, rate, self.data.position)
        return Entry(*where, random, self.weights(), self._moments())


def apart(came: Tensor, want: Tensor) -> float:
    """The norm of the difference as a share of the right one's; infinite where shapes differ."""
    if came.shape != want.shape:
        return inf
    error = ((came - want).norm() / (want.norm() + 1e-300)).item()
    return error if error == error else inf
