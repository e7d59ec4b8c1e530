"""The optimizer states that an answer makes: counted on live storages, at every operation, not only
where it ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ....measure.memory import storage_bytes
from ..verdict import Failure
from ..watch import Watch
from .training import CONTROL_BYTES, Case

PER_ELEMENT = {"sgd": 1, "adamw": 2}  # states of an element: momentum; AdamW's two moments


class Optimizers:
    """Hand `make` to an answer: it makes optimizers as `case` says, and their states can then be
    asked for."""

    def __init__(self, case: Case) -> None:
        self._make, self._made = case.make_optimizer, weakref.WeakSet[torch.optim.Optimizer]()
        self.watch: Watch | None = None

    @property
    def make(self) -> Callable[[Any], torch.optim.Optimizer]:
        """The function to hand out."""

        def make_optimizer(tensors: Any) -> torch.optim.Optimizer:
            made = self._make(tensors)
            self._made.add(made)
            if self.watch is not None:
                watch = self.watch
                made.register_step_pre_hook(lambda *_: watch.must_see())
            return made

        return make_optimizer

    def states(self) -> Iterator[Tensor]:
        """Every state tensor of every optimizer that is still alive."""
        return (
            x
            for optimizer in self._made
            for state in optimizer.state.values()
            for x in state.values()
            if isinstance(x, Tensor)
        )

    def tensors(self) -> list[Tensor]:
        """What they were given to update."""
        return [
            p
            for optimizer in self._made
            for group in optimizer.param_groups
            for p in group["params"]
        ]

    def gradients(self) -> list[Tensor]:
        """The gradients that lie ready for them."""
        return [p.grad for p in self.tensors() if p.grad is not None]

    def bytes(self) -> int:
        """What their storages hold."""
        return storage_bytes(self.states())


@dataclass
class States:
    """Bytes of optimizer states: of the tensors' elements, of their storages, and the most that the
    storages ever were.

    `besides`: bytes alive that are neither these, nor weights, nor gradients. `steps`: how many
    updates there have been.
    """

    elements: int
    now: int
    peak: int
    besides: int
    steps: int

    @classmethod
    def of(
        cls, optimizers: Optimizers, watch: Watch, known: Iterable[Tensor], steps: int
    ) -> States:
        """What they are now, and the peak that `watch` saw. `known`: weights, and what the check
        itself holds."""
        ours = [*known, *optimizers.tensors()]
        ours += [x.grad for x in ours if x.grad is not None]
        now = optimizers.bytes()
        watch.follow([*ours, *optimizers.states()])
        return cls(
            sum(x.numel() * x.element_size() for x in optimizers.states()),
            now,
            max(watch.also_peak, now),
            watch.now() - storage_bytes([*ours, *optimizers.states()]),
            steps,
        )


def limit(case: Case) -> int:
    """The most bytes that a rank's share of the states takes; AdamW also counts steps, in a scalar
    for each tensor."""
    return PER_ELEMENT[case.optimizer] * case.shard_bytes + 8 * sum(map(len, case.shapes))


def judge_states(case: Case, states: Sequence[States]) -> Failure | None:
    """Whether each rank holds its share alone, all the time, and all of them together hold all."""
    return _too_many(case, states) or _elsewhere(case, states)


def _elsewhere(case: Case, states: Sequence[States]) -> Failure | None:
    """Whether states are kept where the optimizers that were made have none."""
    whole = PER_ELEMENT[case.optimizer] * case.numel * case.itemsize
    besides = max(s.besides for s in states)
    # a buffer for all gradients, kept from step to step, and a second copy of the shard are fine
    spare = case.ranks * case.shard_bytes + 2 * case.shard_bytes + 2 * CONTROL_BYTES
    # a rank alone does not know what the others hold
    total = sum(s.elements for s in states) if len(states) == case.ranks else whole
    # states that are made anew in every step show in the second step's weights
    missing = states[0].steps > 1 and total < whole
    if besides <= spare and not missing:
        return None
    expected = t(
        f"the N ranks' optimizers, those from make_optimizer, hold all states, {whole:,} bytes, and"
        " nothing else is as large.",
        f"N 个 rank 上由 make_optimizer 创建的优化器，合起来持有全部状态 {whole:,} 字节，"
        "此外没有同样大的东西。",
    )
    came = t(
        f"they hold {total:,} bytes; besides them, weights and gradients, up to {besides:,} bytes"
        " are alive on a rank.",
        f"它们持有 {total:,} 字节；除此之外，不算权重和梯度，一个 rank 上还有多达 {besides:,}"
        " 字节存活。",
    )
    kind = "states.whole" if besides >= min(whole, spare + 1) else "elsewhere"
    return Failure(kind, expected, came)


def _too_many(case: Case, states: Sequence[States]) -> Failure | None:
    worst = max(states, key=lambda s: (s.now, s.peak))
    expected = t(
        f"at most {limit(case):,} bytes of optimizer states on a rank, a share of 1/{case.ranks},"
        " at any moment.",
        f"任何时刻，一个 rank 上的优化器状态都不超过 {limit(case):,} 字节，也就是 1/{case.ranks}。",
    )
    if worst.now > limit(case) >= worst.elements:
        return Failure(
            "states.view",
            expected,
            t(
                f"the state tensors have {worst.elements:,} bytes of elements, but keep"
                f" {worst.now:,} bytes of storage alive.",
                f"状态张量的元素只有 {worst.elements:,} 字节，却占着 {worst.now:,} 字节的存储。",
            ),
        )
    if worst.now > limit(case):
        return Failure(
            "states.whole", expected, t(f"{worst.now:,} bytes.", f"{worst.now:,} 字节。")
        )
    if max(s.peak for s in states) > limit(case):
        return Failure(
            "states.peak",
            expected,
            t(
                f"{worst.now:,} bytes in the end, but up to {max(s.peak for s in states):,} on the"
                " way there.",
                f"最后是 {worst.now:,} 字节，但中途曾达到 {max(s.peak for s in states):,} 字节。",
            ),
        )
    return None
