"""Exercise 1: how many items each rank holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure


class Case(NamedTuple):
    """`items` over `n` ranks."""

    items: int
    n: int

    def __str__(self) -> str:
        return t(f"{self.items} items, n = {self.n}", f"{self.items} 份，n = {self.n}")


def judge(case: Case, facts: list[Any], _: int = 0) -> Failure | None:
    """What is wrong with one answer; None if nothing is."""
    shares = facts[0]
    whole = isinstance(shares, list) and all(type(share) is int for share in shares)
    if not whole or len(shares) != case.n or sum(shares) != case.items:
        expected = t(
            f"a list of {case.n} whole numbers that add up to {case.items}.",
            f"由 {case.n} 个整数组成的列表，总和为 {case.items}。",
        )
        return Failure("share.total", expected, f"{shares!r:.80}")
    if max(shares) - min(shares) > 1:
        expected = t("shares that differ by one at most.", "各份最多相差 1。")
        return Failure("share.even", expected, f"{shares!r:.80}")
    return None


def run(answer: Callable[[int, int], list[int]], cases: Sequence[Case], patience: float) -> None:
    """Ask for each case's shares, until one is wrong."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        shares = answer(*case)
        saw(number, shares if isinstance(shares, list) else repr(shares))
        if judge(case, [shares]):
            return


def draw(random: Random) -> list[Case]:
    """Sizes that the number of ranks divides, and sizes that it does not."""
    ns = [random.randint(2, 9) for _ in range(6)]
    return [Case(random.choice([n * random.randint(1, 9), random.randint(0, 99)]), n) for n in ns]


EXERCISE = Exercise(
    check="share_tensor_parallelism",
    answer="share",
    lab="lab07",
    run=run,
    judge=judge,
    columns=(
        Column("items", "份数", lambda case, _: case.items),
        Column("N", "N", lambda case, _: case.n),
        Column("shares", "各份", lambda _, told: " + ".join(map(str, told[0][0]))),
    ),
    visible=(Case(12, 4), Case(10, 3), Case(11, 4), Case(2, 3)),
    draw=draw,
)
