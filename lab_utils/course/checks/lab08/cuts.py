"""Exercise 2: uneven layers cut into stages, the slowest as fast as it can be; carried out by real
ranks beside equal numbers of layers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Any

from ....config import ParallelConfig
from ....i18n import t
from ....layout.schedule import make_schedule
from ....layout.stages import stage_layers
from ....measure.schedule import Lane, run_waiting, timeline_of
from ....parallel.mesh import Mesh
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure

UNIT_SECONDS = 0.0005
MICRO_BATCHES = 6


@dataclass(frozen=True)
class Case:
    """Layers that take so many units, forward and backward together, for `stages` stages."""

    units: tuple[int, ...]
    stages: int
    real: bool = True

    @property
    def ranks(self) -> int:
        """How many processes the case takes."""
        return self.stages if self.real else 1

    def slowest(self, sizes: Sequence[int]) -> int:
        """Units of the slowest stage."""
        ends = (0, *accumulate(sizes))
        return max(sum(self.units[a:b]) for a, b in zip(ends, ends[1:], strict=False))

    @property
    def equal(self) -> list[int]:
        """Equal numbers of layers, as far as they go."""
        return [len(layers) for layers in stage_layers(len(self.units), self.stages)]

    def __str__(self) -> str:
        return t(
            f"layers of {', '.join(map(str, self.units))} units, {self.stages} stages",
            f"各层用时 {', '.join(map(str, self.units))}，{self.stages} 个阶段",
        )


@dataclass
class Facts:
    """What came, in words where it is no cut; this rank's step with it and with equal numbers."""

    sizes: list[int] | None
    words: str
    lanes: tuple[Lane, Lane] | None = None


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Ask for each case's sizes, and carry them out if they cut the layers."""
    axis = Mesh(ParallelConfig(pp=int(os.environ["WORLD_SIZE"])))["pp"]
    for number, case in enumerate(cases):
        begin_case(number, patience, axis)
        facts = ask(answer, case)
        if facts.sizes and case.real:
            facts.lanes = tuple(_carry_out(case, s, axis) for s in (facts.sizes, case.equal))
        saw(number, facts)


def ask(answer: Any, case: Case) -> Facts:
    """The sizes, if they cut the layers."""
    returned = answer(list(case.units), case.stages)
    return Facts(list(returned) if _cuts(returned, case) else None, repr(returned)[:80])


def _cuts(returned: Any, case: Case) -> bool:
    return (
        isinstance(returned, list | tuple)
        and len(returned) == case.stages
        and all(type(n) is int and n > 0 for n in returned)
        and sum(returned) == len(case.units)
    )


def _carry_out(case: Case, sizes: Sequence[int], axis: Any) -> Lane:
    ends = (0, *accumulate(sizes))
    took = [UNIT_SECONDS * sum(case.units[a:b]) for a, b in zip(ends, ends[1:], strict=False)]
    made = make_schedule("1f1b", case.stages, MICRO_BATCHES)
    return run_waiting(made, [s / 3 for s in took], [2 * s / 3 for s in took], axis=axis)


@lru_cache(maxsize=64)
def least(units: tuple[int, ...], stages: int) -> int:
    """The slowest stage of the best cut: the smallest sum at which so many stages are enough."""
    for most in range(max(units), sum(units) + 1):
        count, here = 1, 0
        for one in units:
            if here + one > most:
                count, here = count + 1, 0
            here += one
        if count <= stages:
            return most
    raise AssertionError


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """The form, then the slowest stage."""
    sizes = facts[0].sizes
    if any(f.sizes is None for f in facts):
        return Failure(
            "cut.form",
            t(
                f"{case.stages} whole numbers from 1 up that add up to {len(case.units)}.",
                f"{case.stages} 个不小于 1 的整数，总和为 {len(case.units)}。",
            ),
            t(f"{facts[0].words}.", f"返回的是 {facts[0].words}。"),
        )
    best, came = least(case.units, case.stages), case.slowest(sizes)
    if came <= best:
        return None
    return Failure(
        "cut.slowest",
        t(
            f"a slowest stage of {best} units: there is such a cut.",
            f"最慢的阶段为 {best} 个单位：有这样的切法。",
        ),
        t(
            f"{' + '.join(map(str, sizes))} layers: the slowest stage takes {came} units.",
            f"切成 {' + '.join(map(str, sizes))} 层：最慢的阶段要 {came} 个单位。",
        ),
    )


def draw(random: Random) -> list[Case]:
    """A heavy head, heavy layers anywhere, and long models."""
    drawn = [Case((*[3] * random.randint(7, 12), random.randint(7, 12)), random.randint(3, 4))]
    for _ in range(4):
        units = tuple(random.randint(1, 9) for _ in range(random.randint(9, 24)))
        drawn.append(Case(units, random.randint(2, 8), real=False))
    return drawn


def _milliseconds(which: int) -> Any:
    def value(case: Case, told: Any) -> str:
        if told[0][0].lanes is None:
            return "—"
        made = make_schedule("1f1b", case.stages, MICRO_BATCHES)
        return f"{1e3 * timeline_of(made, [f.lanes[which] for f in told[0]]).seconds:.0f} ms"

    return value


EXERCISE = Exercise(
    check="cut_layers",
    answer="cut_layers",
    lab="lab08",
    run=run,
    ask=ask,
    judge=judge,
    columns=(
        Column("units of the layers", "各层用时", lambda case, _: " ".join(map(str, case.units))),
        Column("your stages", "你的切法", lambda _, told: " + ".join(map(str, told[0][0].sizes))),
        Column("slowest", "最慢", lambda case, told: case.slowest(told[0][0].sizes)),
        Column("with equal numbers", "平均分时", lambda case, _: case.slowest(case.equal)),
        Column("step, real ranks", "一步（真实 rank）", _milliseconds(0)),
        Column("step with equal numbers", "平均分时的一步", _milliseconds(1)),
    ),
    visible=(
        Case((3, 3, 3, 3, 3, 3, 3, 3, 8), 4),
        Case((9, 2, 2, 2, 2, 2, 2, 9), 4),
        Case((1, 2, 3, 4, 5, 6), 3),
        Case((5, 1, 1, 1, 1, 1, 1, 1), 3),
        Case((4, 7, 2, 9, 3, 3, 8, 1, 6, 2, 5, 4), 5, real=False),
        Case((2, 2, 2), 3, real=False),
    ),
    draw=draw,
)
