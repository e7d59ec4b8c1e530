"""Exercise 2: all-reduce around a ring, with uneven chunks and any operation, over messages between
neighbours alone."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.comm import Axis
from ....parallel.mesh import Mesh
from ..exercise import Column, Exercise
from ..ranks import BrokenRule, begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
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


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """The value first, then how it came about; None if all is as it should be."""
    n, numel = case.ranks, prod(case.shape)
    wrong = next((rank for rank, f in enumerate(facts) if f.first_wrong), None)
    if wrong is not None:
        return _wrong_value(case, facts, wrong)
    others = {op for f in facts for op in f.by_the_way}
    if others:
        return Failure(
            "ring.only-exchange",
            t("only axis.exchange moves data.", "只能用 axis.exchange 传输数据。"),
            t(
                f"data also went through {', '.join(sorted(others))}.",
                f"数据还经过了 {'、'.join(sorted(others))}。",
            ),
        )
    sent, least = sum(f.bytes for f in facts), 2 * (n - 1) * case.payload
    if sent != least:
        return Failure(
            "ring.bytes",
            t(
                f"{least} bytes from all ranks together: 2(N−1)/N of {case.payload} bytes from"
                " each, on average.",
                f"所有 rank 合计发送 {least} 字节："
                f"平均每个 rank 发送 {case.payload} 字节的 2(N−1)/N。",
            ),
            t(
                f"{sent} bytes, in messages of up to {_longest(facts)} elements.",
                f"合计 {sent} 字节，最长的消息有 {_longest(facts)} 个元素。",
            ),
        )
    if _longest(facts) > -(-numel // n):
        return Failure(
            "ring.bytes",
            t(
                f"no message is longer than a chunk: {-(-numel // n)} elements.",
                f"任何消息都不超过一块：{-(-numel // n)} 个元素。",
            ),
            t(f"one has {_longest(facts)} elements.", f"有一条消息长达 {_longest(facts)} 个元素。"),
        )
    if numel >= n and _count(facts) != 2 * (n - 1):
        return Failure(
            "ring.messages",
            t(
                f"{2 * (n - 1)} messages per rank, one chunk in each step.",
                f"每个 rank {2 * (n - 1)} 条消息，每步一块。",
            ),
            t(f"up to {_count(facts)} messages.", f"最多的一个 rank 发了 {_count(facts)} 条。"),
        )
    carried = min(f.carried for f in facts)
    if numel >= n and carried < n - 1:
        return Failure(
            "ring.only-exchange",
            t("only axis.exchange moves data.", "只能用 axis.exchange 传输数据。"),
            t(
                f"a rank received {carried} pieces of the result in its messages, not {n - 1}: the"
                " numbers came by another way.",
                f"有一个 rank 收到的消息里只有 {carried} 段结果，而不是 {n - 1}"
                " 段：数据是从别处来的。",
            ),
        )
    return None


def _wrong_value(case: Case, facts: list[Facts], rank: int) -> Failure:
    numel = prod(case.shape)
    in_place = t("the tensor that was passed in holds the result.", "结果写回传入的张量本身。")
    if all(f.unchanged for f in facts) and _count(facts) > 0:
        return Failure(
            "ring.in-place",
            in_place,
            t(
                "messages were exchanged, but that tensor is just as it was before.",
                "消息都交换过了，传入的张量却和原来一模一样。",
            ),
        )
    if all(f.returned_right for f in facts):
        return Failure(
            "ring.in-place",
            in_place,
            t(
                "the result is in the tensor that you return; the one passed in has other numbers.",
                "结果只在你返回的张量里，传入的张量并没有变成结果。",
            ),
        )
    if (
        case.criterion is None
        and _count(facts) == case.ranks - 1
        and min(f.right for f in facts) > 0
    ):
        return Failure(
            "ring.half",
            t(
                f"all {numel} elements complete on every rank.",
                f"每个 rank 上的 {numel} 个元素全部完成归约。",
            ),
            t(
                f"after {case.ranks - 1} messages the code stops; rank {rank} holds"
                f" {facts[rank].right} complete elements.",
                f"发送 {case.ranks - 1} 条消息后就停下了，rank {rank} 上只有 {facts[rank].right}"
                " 个元素是完整结果。",
            ),
        )
    index, expected, came = facts[rank].first_wrong
    return Failure(
        case.criterion or "value",
        t(
            f"element {index} on rank {rank} is {expected}.",
            f"rank {rank} 的第 {index} 个元素应为 {expected}。",
        ),
        t(
            f"it is {came}; {numel - facts[rank].right} of {numel} elements are wrong on this"
            " rank.",
            f"得到 {came}；这个 rank 上 {numel} 个元素中有 {numel - facts[rank].right} 个不对。",
        ),
    )


def _count(facts: list[Facts]) -> int:
    """Messages with anything in them, of the rank that sent most."""
    return max(sum(numel > 0 for _, numel in f.messages) for f in facts)


def _longest(facts: list[Facts]) -> int:
    return max((numel for f in facts for _, numel in f.messages), default=0)


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


def draw(random: Random) -> list[Case]:
    """Per number of ranks: a plain case first, so that a general mistake is not taken for a special
    one. (At N = 2 a ring and a gather-and-sum send the same bytes, and left is right.)"""
    cases = []
    for n in (3, 4):
        dtype = random.choice(["float32", "float64", "int64"])
        shapes = [
            ((n * random.randint(2, 6),), None, "add"),
            ((n * random.randint(2, 9) + random.randint(1, n - 1),), "uneven", "add"),
            ((random.randint(1, n - 1),), "few", "add"),
            ((random.randint(2, 5), random.randint(2, 5), 3), "shape", "add"),
        ]
        for operation in random.sample(["maximum", "minimum", "multiply"], 2):
            shapes.append(((random.randint(n, 40),), "combine", operation))
        cases += [Case(n, *shape, dtype, seed=random.randint(1, 10**6)) for shape in shapes]
    return cases


def _bytes(_: Case, told: list[list[Facts]]) -> str:
    least, most = min(f.bytes for f in told[0]), max(f.bytes for f in told[0])
    return str(least) if least == most else f"{least}–{most}"


EXERCISE = Exercise(
    check="ring_all_reduce",
    answer="ring_all_reduce",
    lab="lab05",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("elements", "元素数", lambda case, _: "×".join(map(str, case.shape))),
        Column("operation", "运算", lambda case, _: case.operation),
        Column("messages with content", "非空消息数", lambda _, told: _count(told[0])),
        Column("2(N−1)", "2(N−1)", lambda case, _: 2 * (case.ranks - 1)),
        Column("bytes sent by a rank", "每个 rank 发送的字节数", _bytes),
        Column(
            "2(N−1)/N × payload",
            "2(N−1)/N × 数据量",
            lambda case, _: f"{2 * (case.ranks - 1) / case.ranks * case.payload:.4g}",
        ),
    ),
    visible=(
        Case(4, (12,)),
        Case(4, (9,), "uneven"),
        Case(4, (3,), "few"),
        Case(4, (10,), "combine", "maximum"),
        Case(4, (3, 5), "shape"),
        Case(3, (12,), "any-n"),
        Case(3, (7,), "uneven"),
        Case(3, (2,), "few"),
        Case(3, (8,), "combine", "minimum", "int64"),
    ),
    draw=draw,
)
