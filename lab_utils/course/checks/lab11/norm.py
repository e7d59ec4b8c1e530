"""Exercise 3: the norm of gradients that lie in parts on real ranks, some of them on several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isclose, sqrt
from random import Random
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.mesh import Mesh
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from .clipping import as_number

SMALL = 64  # bytes that a few sums take
CLOSE = 1e-5  # as a share: who sums in fp32 is right, too; what is wrong here is wrong by far more


class Case(NamedTuple):
    """`ranks` ranks, each with `parts` tensors of its own, and `alike` tensors that all of them
    hold; `empty` ranks hold nothing of their own."""

    ranks: int
    parts: int = 2
    alike: int = 1
    empty: int = 0
    seed: int = 0

    def __str__(self) -> str:
        return t(
            f"{self.ranks} ranks, {self.alike} alike, {self.empty} without parts",
            f"{self.ranks} 个 rank，{self.alike} 个相同，{self.empty} 个没有分片",
        )

    def held(self, rank: int) -> tuple[list[Tensor], list[Tensor]]:
        """The rank's own parts, and what all ranks hold alike (float64)."""
        random = torch.Generator().manual_seed(self.seed)
        drawn = [
            [_vector(random, 5 + 3 * part, 1 + rank) for part in range(self.parts)]
            for rank in range(self.ranks)
        ]
        alike = [_vector(random, 7, 2.0) for _ in range(self.alike)]
        return ([] if rank < self.empty else drawn[rank]), alike


def _vector(random: torch.Generator, length: int, size: float) -> Tensor:
    return size * torch.randn(length, generator=random, dtype=torch.float64)


def squares(case: Case) -> tuple[list[float], float]:
    """The sum of squares of each rank's own parts, and of what is alike."""
    own = [sum(x.square().sum().item() for x in case.held(r)[0]) for r in range(case.ranks)]
    return own, sum(x.square().sum().item() for x in case.held(0)[1])


class Facts(NamedTuple):
    """One rank: the norm that it returned, the bytes that it handed over, whether its gradients
    are as they were."""

    norm: float
    bytes: int
    unchanged: bool


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """The number on every rank, then what was sent for it."""
    own, alike = squares(case)
    want = sqrt(sum(own) + alike)
    expected = t(f"{want:.4f} on every rank.", f"每个 rank 都得到 {want:.4f}。")
    for rank, found in enumerate(facts):
        if not isclose(found.norm, want, rel_tol=CLOSE):
            came = t(f"rank {rank} has {found.norm:.4f}.", f"rank {rank} 得到 {found.norm:.4f}。")
            return Failure(_kind(case, facts), expected, came)
    for rank, found in enumerate(facts):
        if found.bytes > SMALL:
            words = t(f"at most {SMALL} bytes from a rank.", f"每个 rank 最多发送 {SMALL} 字节。")
            return Failure("norm.bytes", words, t(f"{found.bytes} bytes", f"{found.bytes} 字节"))
        if not found.unchanged:
            words = t("the gradients stay as they are.", "梯度本身保持不变。")
            came = t(f"those of rank {rank} were changed.", f"rank {rank} 的梯度被改动了。")
            return Failure("norm.changed", words, came)
    return None


def _kind(case: Case, facts: list[Facts]) -> str:
    """Which mistake the numbers come from."""
    own, alike = squares(case)
    if all(
        isclose(f.norm, sqrt(o + alike), rel_tol=CLOSE) for f, o in zip(facts, own, strict=True)
    ):
        return "norm.own"
    if isclose(facts[0].norm, sqrt(sum(own) + case.ranks * alike), rel_tol=CLOSE):
        return "norm.twice"
    if any(isclose(facts[0].norm, v, rel_tol=CLOSE) for v in _sums(own, alike)):
        return "norm.root"
    return "norm.value"


def _sums(own: list[float], alike: float) -> tuple[float, ...]:
    """Norms added up instead of squares, with what is alike on each rank, or once, or under the
    root; and squares without the root."""
    return (
        sum(sqrt(o + alike) for o in own),
        sum(map(sqrt, own)) + sqrt(alike),
        sqrt(sum(map(sqrt, own)) ** 2 + alike),
        sum(own) + alike,
    )


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Ask every rank for the norm."""
    axis = Mesh(ParallelConfig(dp=dist.get_world_size()))["dp"]
    for number, case in enumerate(cases):
        own, alike = case.held(axis.rank)
        begin_case(number, patience, axis)
        with Transfers() as sent:
            norm = answer(own, alike, axis)
        before = [x for part in case.held(axis.rank) for x in part]
        now = own + alike
        unchanged = len(now) == len(before) and all(map(torch.equal, now, before))
        saw(number, Facts(as_number(norm), sum(sent.bytes.values()), unchanged))


def draw(random: Random) -> list[Case]:
    """Two to four ranks; nothing alike, several alike, ranks that hold nothing."""
    return [
        Case(n, random.randint(1, 3), alike, empty, random.randint(1, 10**6))
        for n, alike, empty in ((2, 0, 0), (2, 2, 1), (4, 1, 1), (3, 3, 0), (4, 0, 2))
    ]


EXERCISE = Exercise(
    check="global_norm",
    answer="global_norm",
    lab="lab11",
    run=run,
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, _: case.ranks),
        Column(
            "norms of the ranks' own parts",
            "各 rank 自己那部分的范数",
            lambda case, _: " · ".join(f"{sqrt(o):.2f}" for o in squares(case)[0]),
        ),
        Column(
            "of what is alike", "相同部分的范数", lambda case, _: f"{sqrt(squares(case)[1]):.2f}"
        ),
        Column("your norm", "你的范数", lambda _, told: f"{told[0][0].norm:.4f}"),
        Column("bytes from rank 0", "rank 0 发送（字节）", lambda _, told: told[0][0].bytes),
    ),
    visible=(Case(2), Case(2, alike=0, seed=1), Case(2, empty=1, seed=2), Case(4, alike=2, seed=3)),
    draw=draw,
)
