"""Marks by a lab's own check. Where it cannot be kept out of the room (by_call.py), it sits in one
process with the answer, which may forge it: such a mark is advisory, and is called so."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from ...course import check
from ...course.check import HOMES
from ...course.checks.verdict import Failure
from ...i18n import language, t
from ..crew import Seat
from ..frames import Frame
from ..hub import Hub, Trouble
from .by_call import judge_by_call
from .judge import HIDDEN, VISIBLE, Criterion, Judge, Outcomes

CPU_S, ASLEEP_S = 120.0, 60.0  # a check starts ranks of its own, and some of its cases sleep
REASON = (
    "judged by the lab's check, which shares a process with the answer",
    "由实验自带的检查程序评判，它与答案同处一个进程",
)


@dataclass(frozen=True)
class Cases:
    """The hidden cases that a seed draws; without one the visible ones."""

    criterion: Criterion
    seed: int | None = None
    ranks: int = 1

    def __str__(self) -> str:
        return ""


def judges_by_check(lab: str) -> list[Judge]:
    """One for each of the lab's exercises; where the answer is a function of plain values, the
    check stays outside."""
    return [
        judge_by_call(exercise) if exercise.ask else _judge(exercise.check, exercise.answer)
        for exercise in (getattr(check, name) for name in HOMES if HOMES[name].lab == lab)
    ]


def _judge(name: str, answer: str) -> Judge:
    def examine(cases: Cases, seats: list[Seat], _: Random) -> Outcomes | Trouble:
        words = dict(do="check", answer=answer, check=name, seed=cases.seed, lang=language())
        hub = Hub(seats, [Frame(words)], lambda *_: Frame(0), cpu_s=CPU_S, asleep_s=ASLEEP_S)
        came = hub.run()
        if isinstance(came, Trouble):
            return came
        failure = _failure(came[0].words)
        if failure and cases.criterion is HIDDEN:  # a case's words are its input
            failure = failure._replace(case="")
        return {cases.criterion.name: failure}

    return Judge(
        check=name,
        answer=answer,
        criteria=(VISIBLE, HIDDEN),
        draw=lambda random: [Cases(VISIBLE), Cases(HIDDEN, random.getrandbits(32))],
        examine=examine,
        shows=lambda cases: [cases.criterion.name],
        advisory=REASON,
    )


def _failure(words: dict[str, Any]) -> Failure | None:
    said = words["done"]
    if said == "passed":
        return None
    if isinstance(said, list) and len(said) == 4 and all(isinstance(one, str) for one in said):
        return Failure(*said)
    return Failure("nonsense", t("a verdict.", "一个判定。"), t("none.", "没有。"))
