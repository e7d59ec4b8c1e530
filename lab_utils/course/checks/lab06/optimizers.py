"""The optimizer states that an answer makes: counted on live storages, at every operation, not only where it ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ....measure.memory import storage_bytes
from ..verdict import Failure
from .training import Case

PER_ELEMENT = {"sgd": 1, "adamw": 2}        # states of an element: momentum; AdamW's two moments


class Optimizers:
    """Hand `make` to an answer: it makes optimizers as `case` says, and their states can then be asked for."""

    def __init__(self, case: Case) -> None:
        self._make, self._made = case.make_optimizer, weakref.WeakSet[torch.optim.Optimizer]()

    @property
    def make(self) -> Callable[[Any], torch.optim.Optimizer]:
        """The function to hand out."""
        def make_optimizer(tensors: Any) -> torch.optim.Optimizer:
            made = self._make(tensors)
            self._made.add(made)
            return made

        return make_optimizer

    def states(self) -> Iterator[Tensor]:
        """Every state tensor of every optimizer that is still alive."""
        return (x for optimizer in self._made for state in optimizer.state.values() for x in state.values() if isinstance(x, Tensor))

    def gradients(self) -> list[Tensor]:
        """The gradients that lie ready for them."""
        return [p.grad for optimizer in self._made for group in optimizer.param_groups for p in group["params"] if p.grad is not None]

    def bytes(self) -> int:
        """What their storages hold."""
        return storage_bytes(self.states())


@dataclass
class States:
    """Bytes of optimizer states: of the tensors' elements, of their storages, and the most that the storages ever were."""

    elements: int
    now: int
    peak: int

    @classmethod
    def of(cls, optimizers: Optimizers, peak: int) -> States:
        """What they are now, with the peak that was seen."""
        return cls(sum(x.numel() * x.element_size() for x in optimizers.states()), optimizers.bytes(), peak)


def limit(case: Case) -> int:
    """The most bytes that a rank's share of the states takes; AdamW also counts steps, in a scalar for each tensor."""
    return PER_ELEMENT[case.optimizer] * case.shard_bytes + 8 * sum(map(len, case.shapes))


def judge_states(case: Case, states: Sequence[States], where: str) -> Failure | None:
    """Whether each rank holds its share alone, all the time."""
    worst = max(states, key=lambda s: (s.now, s.peak))
    expected = t(f"at most {limit(case):,} bytes of optimizer states on a rank, a share of 1/{case.ranks}, at any moment.",
                 f"任何时刻，一个 rank 上的优化器状态都不超过 {limit(case):,} 字节，也就是 1/{case.ranks}。")
    if worst.now > limit(case) >= worst.elements:
        return Failure("states.view", expected,
                       t(f"the state tensors have {worst.elements:,} bytes of elements, but keep {worst.now:,} bytes of storage alive.",
                         f"状态张量的元素只有 {worst.elements:,} 字节，却占着 {worst.now:,} 字节的存储。"), where)
    if worst.now > limit(case):
        return Failure("states.whole", expected, t(f"{worst.now:,} bytes.", f"{worst.now:,} 字节。"), where)
    if max(s.peak for s in states) > limit(case):
        return Failure("states.peak", expected,
                       t(f"{worst.now:,} bytes in the end, but up to {max(s.peak for s in states):,} on the way there.",
                         f"最后是 {worst.now:,} 字节，但中途曾达到 {max(s.peak for s in states):,} 字节。"), where)
    return None
