"""Exercise 1: the two conjugate operators, judged inside a stack of column-then-row products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....i18n import t
from ....parallel.comm import Axis
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent, see, waited_axis
from ..wrong import Look, look, worst

Operator = Callable[[Tensor], Tensor]
TOLERANCE = 1e-10  # of float64 sums in another order


@dataclass(frozen=True)
class Case:
    """`layers` times h + gelu(h A) B, with A cut by columns and B by rows."""

    ranks: int
    layers: int = 1
    tokens: int = 6
    width: int = 4
    seed: int = 0

    def tensors(self) -> list[Tensor]:
        """x, what weighs the output in the loss, and A, B of every layer: alike on all ranks."""
        generator = torch.Generator().manual_seed(self.seed)
        wide = 2 * self.ranks
        shapes = [(self.tokens, self.width)] * 2
        shapes += [(self.width, wide), (wide, self.width)] * self.layers
        made = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        return [made[0].requires_grad_(), made[1], *(x.requires_grad_() for x in made[2:])]

    def __str__(self) -> str:
        return t(
            f"N = {self.ranks}, layers: {self.layers}", f"N = {self.ranks}、层数：{self.layers}"
        )


@dataclass
class Facts:
    """One rank: its output, its gradients (of x, and of the parts of A and B layer by layer), and
    what was sent."""

    y: Look
    x: Look
    parts: list[Look]
    forward: Sent
    backward: Sent


def _run_stack(tensors: list[Tensor], enter: Operator, leave: Operator, cut: Any) -> Tensor:
    h = tensors[0]
    for A, B in zip(tensors[2::2], tensors[3::2], strict=True):
        h = h + leave(F.gelu(enter(h) @ cut(A, 1)) @ cut(B, 0))
    return h


def _gradients(y: Tensor, tensors: list[Tensor]) -> list[Tensor]:
    (y * tensors[1]).sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in (tensors[0], *tensors[2:])]


def run(
    answer: Callable[[Axis], tuple[Operator, Operator]], cases: Sequence[Case], patience: float
) -> None:
    """Put the operators to work, forward and backward, and hold all against one process."""
    plain, axis = waited_axis("all_reduce")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        facts = _examine(answer, case, axis)
        saw(number, facts)


def _examine(answer: Any, case: Case, axis: Any) -> Facts:
    def cut(tensor: Tensor, dim: int) -> Tensor:
        return tensor.chunk(case.ranks, dim)[axis.rank]

    alone, here = case.tensors(), case.tensors()
    right_y = _run_stack(alone, lambda x: x, lambda x: x, lambda x, dim: x)
    right = _gradients(right_y, alone)
    axis.begin()
    with Transfers() as transfers:
        y = _run_stack(here, *answer(axis), cut)
    forward = see(axis, transfers)
    axis.begin()
    with Transfers() as transfers:
        came = _gradients(y, here)
    backward = see(axis, transfers)
    pairs = list(zip(came[1:], right[1:], strict=True))
    parts = [
        look(cut(a, 1 - i % 2), cut(b, 1 - i % 2), TOLERANCE) for i, (a, b) in enumerate(pairs)
    ]
    return Facts(
        look(y, right_y, TOLERANCE), look(came[0], right[0], TOLERANCE), parts, forward, backward
    )


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Transfers, then values forward and backward, then how often was sent."""
    failure = judge_sent([sent for f in facts for sent in (f.forward, f.backward)])
    return failure or _values(case, facts) or _calls(case, facts)


def _values(case: Case, facts: list[Facts]) -> Failure | None:
    rank, y = worst(f.y for f in facts)
    if y.kind != "right":
        return Failure(
            "operators.forward",
            t("the output is one process's, on every rank.", "每个 rank 的输出都与单进程一致。"),
            t(
                f"rank {rank}: the output is {y.words(case.ranks)}.",
                f"rank {rank} 的输出：{y.words(case.ranks)}。",
            ),
        )
    expected = t(
        "gradients of x, A and B are one process's, on every rank.",
        "x、A、B 的梯度在每个 rank 上都与单进程一致。",
    )
    # of the last layer: only Leave has worked on them
    rank, last = worst(look for f in facts for look in f.parts[-2:])
    if last.kind != "right":
        return Failure(
            "operators.leave",
            expected,
            t(
                f"the last layer's A and B have gradients that are {last.words(case.ranks)}.",
                f"最后一层 A、B 的梯度：{last.words(case.ranks)}。",
            ),
        )
    rank, x = worst(f.x for f in facts)
    if x.kind != "right":
        return Failure(
            "operators.enter",
            expected,
            t(
                f"the last layer's A and B are right; on rank {rank} the gradient of x is"
                f" {x.words(case.ranks)}.",
                f"最后一层 A、B 的梯度正确；rank {rank} 上 x 的梯度：{x.words(case.ranks)}。",
            ),
        )
    return None


def _calls(case: Case, facts: list[Facts]) -> Failure | None:
    for f in facts:
        seen = [sum(sent.calls.values()) for sent in (f.forward, f.backward)]
        if seen != [case.layers, case.layers]:
            return Failure(
                "operators.calls",
                t(
                    "one all-reduce for each layer forward, and one backward.",
                    "每层前向一次 all-reduce，反向一次。",
                ),
                t(
                    f"{seen[0]} forward and {seen[1]} backward for {case.layers} layers.",
                    f"{case.layers} 层前向 {seen[0]} 次，反向 {seen[1]} 次。",
                ),
            )
    return None


def draw(random: Random) -> list[Case]:
    """One layer first: there each operator shows by itself."""
    return [
        Case(n, layers, random.randint(2, 9), random.randint(2, 6), random.randint(1, 10**6))
        for n in (3, 4)
        for layers in (1, random.randint(2, 4))
    ]


EXERCISE = Exercise(
    check="operators",
    answer="operators",
    lab="lab07",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("layers", "层数", lambda case, _: case.layers),
        Column(
            "all-reduces forward",
            "前向 all-reduce",
            lambda _, told: told[0][0].forward.calls["all_reduce"],
        ),
        Column(
            "backward", "反向 all-reduce", lambda _, told: told[0][0].backward.calls["all_reduce"]
        ),
        Column(
            "largest error of a gradient",
            "梯度的最大偏差",
            lambda _, told: "≤ 1e-10" if all(f.x.off <= TOLERANCE for f in told[0]) else "?",
        ),
    ),
    visible=(Case(4), Case(4, layers=3), Case(3), Case(3, layers=2)),
    draw=draw,
)
