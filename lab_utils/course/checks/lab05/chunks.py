"""Exercise 1: where N nearly equal chunks begin and end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure

Bounds = list[tuple[int, int]]


class Case(NamedTuple):
    """`numel` elements in `n` chunks."""

    numel: int
    n: int

    def __str__(self) -> str:
        return t(f"numel = {self.numel:,}, n = {self.n}", f"numel = {self.numel:,}、n = {self.n}")


def reference(numel: int, n: int) -> Bounds:
    """n chunks whose sizes differ by one at most, the longer ones first; used wherever another
    exercise needs a right one."""
    ends = [chunk * (numel // n) + min(chunk, numel % n) for chunk in range(n + 1)]
    return list(zip(ends, ends[1:], strict=False))


def judge(case: Case, facts: list[Any], _: int = 0) -> Failure | None:
    """What is wrong with one answer; None if nothing is."""
    bounds, numel, n = facts[0], case.numel, case.n
    if not _pairs(bounds):
        expected = t(
            "a list of (begin, end) pairs of whole numbers.", "由 (begin, end) 整数对组成的列表。"
        )
        return Failure("chunks.type", expected, str(bounds))
    if len(bounds) != n:
        return Failure(
            "chunks.count",
            t(f"exactly {n} chunks, one for each rank.", f"恰好 {n} 块，每个 rank 一块。"),
            t(f"{len(bounds)} chunks: {_short(bounds)}.", f"{len(bounds)} 块：{_short(bounds)}。"),
        )
    ends = [0, *(end for _, end in bounds)]
    in_order = [begin for begin, _ in bounds] == ends[:-1] and ends == sorted(ends)
    if not in_order or ends[-1] != numel:
        expected = t(
            f"chunks from 0 to {numel:,}, each beginning where the one before ended.",
            f"各块从 0 到 {numel:,} 首尾相接。",
        )
        return Failure("chunks.cover", expected, _short(bounds))
    sizes = _sizes(bounds)
    if max(sizes) - min(sizes) > 1:
        return Failure(
            "chunks.balance",
            t("sizes that differ by one element at most.", "各块大小最多相差一个元素。"),
            t(
                f"sizes from {min(sizes):,} to {max(sizes):,}: {_short(sizes)}.",
                f"最小 {min(sizes):,}、最大 {max(sizes):,}：{_short(sizes)}。",
            ),
        )
    return None


def run(answer: Callable[[int, int], Bounds], cases: Sequence[Case], patience: float) -> None:
    """Ask for each case's bounds, until one is wrong: a later one might hang."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        bounds = answer(*case)
        told = bounds if _pairs(bounds) else _short(bounds)
        saw(number, told)
        if judge(case, [told]):
            return


def draw(random: Random) -> list[Case]:
    """A few of every kind, among them fewer elements than chunks, and sizes that one more would
    divide."""
    ns = [random.randint(2, 17) for _ in range(12)]
    return [
        Case(
            random.choice(
                [random.randint(0, n - 1), n * random.randint(1, 9) - 1, random.randint(n, 10**6)]
            ),
            n,
        )
        for n in ns
    ]


def _sizes(bounds: Bounds) -> list[int]:
    return [end - begin for begin, end in bounds]


def _pairs(bounds: Any) -> bool:
    return isinstance(bounds, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and all(type(end) is int for end in pair)
        for pair in bounds
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "…"


EXERCISE = Exercise(
    check="chunk_bounds",
    answer="chunk_bounds",
    lab="lab05",
    run=run,
    judge=judge,
    columns=(
        Column("elements", "元素数", lambda case, _: f"{case.numel:,}"),
        Column("N", "N", lambda case, _: case.n),
        Column(
            "sizes of the chunks",
            "各块大小",
            lambda _, told: " + ".join(f"{size:,}" for size in _sizes(told[0][0])),
        ),
    ),
    visible=tuple(
        Case(*case) for case in ((12, 4), (9, 4), (7, 3), (5, 4), (3, 4), (0, 3), (1_000_003, 8))
    ),
    draw=draw,
)
