"""Exercise 3: the 1F1B generator, for any number of ranks and micro-batches."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from ....estimate.time.pipeline import simulate
from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from .orders import (
    Case,
    Facts,
    asked,
    judge_form,
    judge_held,
    run,
    shown_held,
    shown_seconds,
    simulated_seconds,
)

SECONDS = (1, 2)  # F and B, in units


def _ask(answer: Any, case: Case) -> Any:
    return [answer(rank, case.p, case.m) for rank in range(case.p)]


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """A schedule, as few in flight as 1F1B has, and as short a step."""
    return (
        judge_form(facts, _form())
        or judge_held(facts, [min(case.m, case.p - rank) for rank in range(case.p)])
        or _bubble(case, facts)
    )


def _form() -> str:
    return t(
        'for each rank a list of pairs ("F" or "B", micro-batch).',
        "每个 rank 返回一个列表，里面是二元组（“F”或“B”，微批次编号）。",
    )


def _bubble(case: Case, facts: list[Facts]) -> Failure | None:
    came = simulate(facts[0].schedule, *SECONDS).seconds
    least = (case.m + case.p - 1) * sum(SECONDS)
    if came <= least + 1e-9:
        return None
    return Failure(
        "order.bubble",
        t(
            f"with F = 1 and B = 2 the step takes at most (m + p − 1)(F + B) = {least} units.",
            f"F = 1、B = 2 时，一步不超过 (m + p − 1)(F + B) = {least} 个单位。",
        ),
        t(f"{came:g} units.", f"{came:g} 个单位。"),
    )


def draw(random: Random) -> list[Case]:
    """Real ones, with fewer micro-batches than ranks and with more, then larger ones."""
    p = random.randint(3, 4)
    return [
        Case(p, random.randint(1, p - 1)),
        Case(p, random.randint(p + 1, 9)),
        *(Case(random.randint(5, 12), random.randint(1, 30), real=False) for _ in range(4)),
    ]


EXERCISE = Exercise(
    check="one_f_one_b",
    answer="one_f_one_b",
    lab="lab08",
    run=partial(run, _ask, "FB", SECONDS),
    ask=partial(asked, _ask, "FB"),
    judge=judge,
    columns=(
        Column("p", "p", lambda case, _: case.p),
        Column("m", "m", lambda case, _: case.m),
        Column("micro-batches held", "持有的微批次", lambda _, told: shown_held(told)),
        Column(
            "bubble over ideal",
            "气泡 ÷ 理想时间",
            lambda _, told: (
                f"{100 * simulate(told[0][0].schedule, *SECONDS).bubble_over_ideal:.0f} %"
            ),
        ),
        Column("step, simulated", "一步（模拟）", lambda _, told: simulated_seconds(told, SECONDS)),
        Column("step, real ranks", "一步（真实 rank）", lambda _, told: shown_seconds(told)),
    ),
    visible=(
        Case(4, 8),
        Case(4, 3),
        Case(3, 5),
        Case(2, 1),
        Case(1, 3),
        Case(8, 20, real=False),
        Case(8, 3, real=False),
    ),
    draw=draw,
)
