"""Exercise 2 of lab 05, on the ranks: the cases, what passes through the axis, and what is seen of
an answer at work."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.comm import Axis
from ....parallel.mesh import Mesh
from ..ranks import BrokenRule, begin_case, saw
from ..transfers import Transfers
from ..watched import WatchedAxis
from .chunks import reference

Answer = Callable[[Tensor, Axis, Callable[[Tensor, Tensor], Tensor]], Any]
OPERATIONS = {
    "add": torch.add,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "multiply": torch.mul,
}


@dataclass(frozen=True)
class Case:
    """One all-reduce. `criterion`: the one thing that this case is there to show; None: a first,
    plain one."""

    ranks: int
    shape: tuple[int, ...]
    criterion: str | None = None
    operation: str = "add"
    dtype: str = "float32"
    seed: int = 0

    def input(self, rank: int) -> Tensor:
        """What `rank` brings: small whole numbers, so that every order of adding gives exactly the
        same."""
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        low, high = (1, 4) if self.operation == "multiply" else (-9, 10)
        return torch.randint(low, high, self.shape, generator=generator).to(
            getattr(torch, self.dtype)
        )

    @property
    def payload(self) -> int:
        """Bytes of the whole tensor."""
        return prod(self.shape) * getattr(torch, self.dtype).itemsize

    def __str__(self) -> str:
        sizes = " × ".join(map(str, self.shape))
        return t(
            f"N = {self.ranks}, {sizes} elements, torch.{self._function}",
            f"N = {self.ranks}、{sizes} 个元素、torch.{self._function}",
        )

    @property
    def _function(self) -> str:
        return OPERATIONS[self.operation].__name__


@dataclass
class Facts:
    """What one rank saw in one case. A message is (position it went to, its elements)."""

    right: int  # elements of the tensor that hold the result
    first_wrong: tuple[int, Any, Any] | None  # index, expected, came
    returned_right: bool  # a tensor was returned that holds the result
    unchanged: bool  # the tensor is as it was passed in
    messages: list[tuple[int, int]]
    bytes: int
    carried: int  # messages that came and are a piece of the result
    by_the_way: dict[str, int]  # transfers that did not pass through exchange


class RingAxis(WatchedAxis):
    """Lets through only what a ring sends: to one neighbour, from the opposite one."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis, ["exchange"], "ring.only-exchange")
        self.messages: list[tuple[int, int]] = []
        self.came: list[Tensor] = []

    def begin(self) -> None:
        """Another case."""
        super().begin()
        self.messages.clear()
        self.came.clear()

    def exchange(
        self,
        outgoing: Tensor,
        to: int,
        incoming: Tensor,
        source: int,
        *,
        purpose: str,
        label: str = "",
    ) -> None:
        left, right = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        if (to, source) not in ((right, left), (left, right)):
            expected = t(
                f"rank {self.rank} of {self.size} sends to one neighbour and receives from the"
                f" other: {left} and {right}.",
                f"共 {self.size} 个 rank 时，rank {self.rank} 向一侧邻居发送，从另一侧邻居接收，"
                f"两侧邻居是 {left} 和 {right}。",
            )
            raise BrokenRule(
                "ring.neighbours",
                expected,
                t(
                    f"it sends to {to} and receives from {source}.",
                    f"它发给 {to}，从 {source} 接收。",
                ),
            )
        self._agree_on_size(outgoing, to, incoming, source)
        super().exchange(outgoing, to, incoming, source, purpose=purpose, label=label)
        self.messages.append((to, outgoing.numel()))
        self.came.append(incoming.detach().clone().flatten())

    def _agree_on_size(self, outgoing: Tensor, to: int, incoming: Tensor, source: int) -> None:
        """Tell the receiver how long the message is: gloo would end the process over a wrong
        length, without a word of use."""
        arriving = torch.empty(1, dtype=torch.int64)
        for work in self._swap(torch.tensor([outgoing.numel()]), to, arriving, source):
            work.wait()
        if arriving.item() != incoming.numel():
            raise BrokenRule(
                "mismatch",
                t(
                    "`incoming` is as long as the chunk that arrives.",
                    "`incoming` 与要收到的块等长。",
                ),
                t(
                    f"in exchange no. {len(self.messages) + 1}, rank {source} sends"
                    f" {arriving.item()} elements and rank {self.rank} has room for"
                    f" {incoming.numel()}.",
                    f"第 {len(self.messages) + 1} 次 exchange 中，rank {source} 发来"
                    f" {arriving.item()} 个元素，而 rank {self.rank} 准备的位置是"
                    f" {incoming.numel()} 个元素。",
                ),
            )


def run(answer: Answer, cases: Sequence[Case], patience: float) -> None:
    """All-reduce each case's input, with a right `chunk_bounds` at hand."""
    if hasattr(answer, "__globals__"):
        answer.__globals__["chunk_bounds"] = reference
    plain = Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"]
    axis = RingAxis(plain)
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        inputs = [case.input(rank) for rank in range(case.ranks)]
        result = functools.reduce(OPERATIONS[case.operation], inputs)
        mine = inputs[axis.rank].clone()
        axis.begin()
        with Transfers() as transfers:
            returned = answer(mine, axis, OPERATIONS[case.operation])
        saw(number, _facts(inputs[axis.rank], mine, returned, result, axis, transfers))


def _facts(
    given: Tensor, mine: Tensor, returned: Any, result: Tensor, axis: RingAxis, transfers: Transfers
) -> Facts:
    off = (mine != result).flatten()
    where = off.nonzero().flatten().tolist()[:1]
    first = (
        (where[0], result.flatten()[where[0]].item(), mine.flatten()[where[0]].item())
        if where
        else None
    )
    returned_right = (
        isinstance(returned, Tensor)
        and returned.shape == result.shape
        and bool((returned == result).all())
    )
    through = 2 * len(axis.messages)  # each with its length ahead of it
    by_the_way = {
        op: count
        for op, count in transfers.count.items()
        if count != (through if op in ("send", "recv") else 0)
    }
    return Facts(
        right=int((~off).sum()),
        first_wrong=first,
        returned_right=returned_right,
        unchanged=torch.equal(mine, given),
        messages=list(axis.messages),
        bytes=sum(sent.bytes for sent in axis.sent),
        carried=sum(_is_piece(message, result.flatten()) for message in axis.came),
        by_the_way=by_the_way,
    )


def _is_piece(message: Tensor, whole: Tensor) -> bool:
    if not 0 < len(message) <= len(whole):
        return False
    return bool((whole.unfold(0, len(message), 1) == message).all(1).any())
