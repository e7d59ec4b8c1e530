"""Exercise 1: the three factors, judged on how far a weight really moves in each update."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import torch

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from .right import KINDS, right_factor

BEYOND, TOLERANCE = 5, 1e-9  # updates after the end; of the peak rate


class Case(NamedTuple):
    """A schedule, as the answer is told it."""

    kind: str
    total: int
    warmup: int
    floor: float
    cooldown: int = 0

    def __str__(self) -> str:
        falls = t(f", cool-down {self.cooldown}", f"，冷却 {self.cooldown}")
        return t(
            f"{self.kind}, {self.total} updates, warm-up {self.warmup}, floor {self.floor:g}",
            f"{self.kind}，共 {self.total} 次更新，预热 {self.warmup}，下限 {self.floor:g}",
        ) + (falls if self.kind == "wsd" else "")

    @property
    def last_full(self) -> int:
        """The last update that has the peak rate."""
        return self.total - 1 - self.cooldown if self.kind == "wsd" else max(self.warmup - 1, 0)

    def right(self) -> list[float]:
        """The shares of all updates, and of some after the end."""
        return [right_factor(self.kind, u, *self[1:]) for u in range(self.total + BEYOND)]


def judge(case: Case, facts: list[list[float]], _: int = 0) -> Failure | None:
    """The first update whose rate is not the right one, and which part of the schedule it is in."""
    came, right = facts[0], case.right()
    wrong = next(
        (u for u, (a, b) in enumerate(zip(came, right, strict=True)) if not abs(a - b) < TOLERANCE),
        None,
    )
    if wrong is None:
        return None
    part = _part(case, came, wrong)
    if part in ("factor.end", "factor.floor"):
        wrong = case.total - 1  # what is shown is what the hint speaks of
    return Failure(
        part,
        t(
            f"update {wrong} (from 0) moves the weights by {right[wrong]:.4f} of the peak rate.",
            f"第 {wrong} 次更新（从 0 数起）用峰值学习率的 {right[wrong]:.4f} 移动权重。",
        ),
        f"{came[wrong]:.4f}",
    )


def _part(case: Case, came: list[float], wrong: int) -> str:
    """The criterion: what the learner got wrong first."""
    if wrong < case.warmup:
        climb = came[: case.warmup]
        # on a ramp nothing but the last update is 0 or 1
        if case.warmup > 2 and all(share in (0.0, 1.0) for share in climb):
            return "factor.whole"
        return "factor.first" if abs(came[0]) < TOLERANCE else "factor.climb"
    if wrong >= case.total:
        return "factor.after"
    if wrong <= case.last_full:
        return "factor.plateau" if case.kind == "wsd" else "factor.peak"
    last = came[case.total - 1]
    if case.floor > 0 and abs(last) < TOLERANCE:
        return "factor.floor"
    return f"factor.{case.kind}" if abs(last - case.floor) < TOLERANCE else "factor.end"


def ask(answer: Callable[..., Any], case: Case) -> list[float]:
    """Move a weight, whose gradient is 1, once with the rate of each update."""
    peak = 0.25
    weight = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer, came = torch.optim.SGD([weight], lr=peak), []
    for update in range(case.total + BEYOND):
        optimizer.param_groups[0]["lr"] = peak * float(answer(case.kind, update, *case[1:]))
        weight.grad, before = torch.ones_like(weight), weight.item()
        optimizer.step()
        came.append((before - weight.item()) / peak)
    return came


def draw(random: Random) -> list[Case]:
    """Each kind with a warm-up and without, floors, and totals that nothing divides."""
    found = []
    for kind in (*KINDS, *KINDS):
        total = random.choice((23, 37, 41, 59))
        warmup = random.randint(3, 9) if len(found) < len(KINDS) else random.randint(0, 2)
        cooldown = random.randint(4, 11) if kind == "wsd" else 0
        found.append(Case(kind, total, warmup, random.choice((0.0, 0.05, 0.1, 0.2)), cooldown))
    # a floor above 0 in each kind, and once no warm-up
    sure = (("linear", 4, 0), ("cosine", 0, 0), ("wsd", 4, 6))
    return [*found, *(Case(kind, 29, warmup, 0.125, length) for kind, warmup, length in sure)]


def _at(update: Callable[[Case], int]) -> Callable[[Case, Any], str]:
    return lambda case, told: f"{told[0][0][update(case)]:.3f}"


EXERCISE = Exercise(
    check="rate_factor",
    answer="rate_factor",
    lab="lab13",
    ask=ask,
    judge=judge,
    columns=(
        Column("schedule", "调度", lambda case, _: case.kind),
        Column("updates", "更新次数", lambda case, _: case.total),
        Column("warm-up", "预热", lambda case, _: case.warmup),
        Column("first", "第一次", _at(lambda _: 0)),
        Column("middle", "正中", _at(lambda case: case.total // 2)),
        Column("last but one", "倒数第二次", _at(lambda case: case.total - 2)),
        Column("last", "最后一次", _at(lambda case: case.total - 1)),
    ),
    visible=(
        Case("linear", 20, 4, 0.0),
        Case("cosine", 20, 4, 0.1),
        Case("wsd", 20, 4, 0.1, 5),
        Case("linear", 21, 0, 0.2),
        Case("wsd", 17, 3, 0.0, 4),
    ),
    draw=draw,
)
