"""Exercise 1: who stands in a rank's group, for any order and any sizes of the axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import torch

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure

Table = list[Any]  # of every rank, and in it of every axis: a group


@dataclass(frozen=True)
class Case:
    """Axes, the outermost first, and how many ranks each has."""

    order: tuple[str, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return " × ".join(f"{axis} {n}" for axis, n in zip(self.order, self.sizes, strict=True))

    def flags(self) -> dict[str, int]:
        """Sizes by axis, in an order that says nothing."""
        return dict(sorted(zip(self.order, self.sizes, strict=True)))

    def right(self, rank: int, axis: str) -> list[int]:
        """By folding the line of ranks into a box, and looking along the axis."""
        grid = torch.arange(prod(self.sizes)).view(self.sizes)
        lines = grid.movedim(self.order.index(axis), -1).reshape(-1, self.flags()[axis])
        return next(line for line in lines.tolist() if rank in line)


def ask(answer: Callable[..., list[int]], case: Case) -> Table:
    """Every group of every rank."""
    told = []
    for rank in range(prod(case.sizes)):
        found = [answer(rank, axis, case.order, case.flags()) for axis in case.order]
        told.append([g if isinstance(g, list) else repr(g) for g in found])
    return told


def judge(case: Case, facts: list[Table], _: int = 0) -> Failure | None:
    """The first group that is wrong, by what is wrong with it."""
    for rank, groups in enumerate(facts[0]):
        for axis, came in zip(case.order, groups, strict=True):
            right = case.right(rank, axis)
            if came != right:
                where = t(f"rank {rank}, axis {axis}", f"rank {rank}，{axis} 轴")
                return _failure(where, rank, came, right)
    return None


def _failure(where: str, rank: int, came: Any, right: list[int]) -> Failure:
    shown = f"{where}: {came!r:.80}" if where.isascii() else f"{where}：{came!r:.80}"
    if not isinstance(came, list) or len(came) != len(right):
        return Failure(
            "groups.size",
            t(
                f"{where}: a list of {len(right)} ranks.",
                f"{where}：由 {len(right)} 个 rank 组成的列表。",
            ),
            shown,
        )
    if rank not in came:
        return Failure(
            "groups.self",
            t(f"{where}: the group holds rank {rank}.", f"{where}：组里有 rank {rank} 自己。"),
            shown,
        )
    if sorted(came) == right:
        return Failure(
            "groups.sequence",
            t(f"{where}: in the order of the axis.", f"{where}：按该轴的次序排列。"),
            shown,
        )
    return Failure(
        "groups.members",
        t(
            f"{where}: ranks that agree in all other coordinates.",
            f"{where}：其他坐标都相同的 rank。",
        ),
        shown,
    )


def draw(random: Random) -> list[Case]:
    """Three and four axes in any order, sizes that are no powers of two among them."""
    cases = []
    for _ in range(5):
        order = random.sample(("dp", "pp", "cp", "tp"), random.choice((3, 4)))
        cases.append(Case(tuple(order), tuple(random.randint(1, 4) for _ in order)))
    return cases


EXERCISE = Exercise(
    check="rank_groups",
    answer="group_of",
    lab="lab09",
    ask=ask,
    judge=judge,
    columns=(
        Column("grid, outermost first", "网格（最外层在前）", lambda case, _: str(case)),
        Column(
            "groups of the last rank",
            "最后一个 rank 的各组",
            lambda _, told: " | ".join(" ".join(map(str, group)) for group in told[0][0][-1]),
        ),
    ),
    visible=(
        Case(("dp", "pp", "tp"), (2, 2, 2)),
        Case(("pp", "dp", "tp"), (4, 2, 2)),
        Case(("dp", "pp", "cp", "tp"), (2, 3, 1, 4)),
    ),
    draw=draw,
)
