"""Exercise 4: any schedule whose bubble is smaller than 1F1B's and that holds no more on any rank:
the simulator judges it, then real ranks carry it out."""

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

SECONDS = (1, 1, 1)  # F, B and W, in units


def _ask(answer: Any, case: Case) -> Any:
    return answer(case.p, case.m)


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """A schedule, in 1F1B's memory, with at most two thirds of its bubble."""
    return (
        judge_form(facts, _form())
        or judge_held(facts, [min(case.m, case.p - rank) for rank in range(case.p)])
        or _bubble(case, facts)
    )


def _form() -> str:
    return t(
        'a list with one list for each rank, of pairs ("F", "B" or "W", micro-batch).',
        "一个列表，每个 rank 一个列表，里面是二元组（“F”“B”或“W”，微批次编号）。",
    )


def _bubble(case: Case, facts: list[Facts]) -> Failure | None:
    bubbles = simulate(facts[0].schedule, *SECONDS).bubble_seconds
    came, rank = max(zip(bubbles, range(case.p), strict=True))
    most = 2 * (case.p - 1)
    if came <= most + 1e-9:
        return None
    return Failure(
        "order.bubble",
        t(
            f"at most {most} units of bubble on any rank; 1F1B has {3 * (case.p - 1)}"
            " (F = B = W = 1).",
            f"任何 rank 的气泡不超过 {most} 个单位；1F1B 是 {3 * (case.p - 1)} 个"
            "（F = B = W = 1）。",
        ),
        t(f"{came:g} units, on rank {rank}.", f"rank {rank} 上有 {came:g} 个单位。"),
    )


def draw(random: Random) -> list[Case]:
    """Real ones, then larger ones; at least as many micro-batches as ranks."""
    p = random.randint(3, 4)
    larger = [random.randint(5, 10) for _ in range(3)]
    return [
        Case(p, random.randint(p, p + 4)),
        *(Case(n, random.randint(n, 3 * n), real=False) for n in larger),
    ]


EXERCISE = Exercise(
    check="less_bubble",
    answer="less_bubble",
    lab="lab08",
    run=partial(run, _ask, "FBW", SECONDS),
    ask=partial(asked, _ask, "FBW"),
    judge=judge,
    columns=(
        Column("p", "p", lambda case, _: case.p),
        Column("m", "m", lambda case, _: case.m),
        Column("micro-batches held", "持有的微批次", lambda _, told: shown_held(told)),
        Column(
            "bubble, units",
            "气泡（单位）",
            lambda _, told: f"{max(simulate(told[0][0].schedule, *SECONDS).bubble_seconds):g}",
        ),
        Column("1F1B's", "1F1B 的气泡", lambda case, _: 3 * (case.p - 1)),
        Column("step, simulated", "一步（模拟）", lambda _, told: simulated_seconds(told, SECONDS)),
        Column("step, real ranks", "一步（真实 rank）", lambda _, told: shown_seconds(told)),
    ),
    visible=(Case(4, 8), Case(4, 4), Case(3, 5), Case(2, 4), Case(8, 20, real=False)),
    draw=draw,
)
