"""Marks by a lab's own check, run on hidden cases inside the room. It sits in one process with the
answer, which may forge it: such a mark is advisory, and is called so."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from ...course.check import HOMES
from ...course.checks.verdict import Failure
from ...i18n import language, t
from ..crew import Seat
from ..frames import Frame
from ..hub import Hub, Trouble
from .judge import Criterion, Judge, Outcomes

CPU_S = 180.0
REASON = (
    "judged by the lab's check, which shares a process with the answer",
    "由实验自带的检查程序评判，它与答案同处一个进程",
)
_HIDDEN = Criterion("hidden cases", "the check's hidden cases", "自动检查的隐藏用例")


@dataclass(frozen=True)
class Cases:
    """The hidden cases that a seed draws."""

    seed: int
    ranks: int = 1

    def __str__(self) -> str:
        return ""


def judges_by_check(lab: str) -> list[Judge]:
    """One for each of the lab's exercises."""
    return [_judge(check, home.answer) for check, home in HOMES.items() if home.lab == lab]


def _judge(check: str, answer: str) -> Judge:
    def examine(cases: Cases, seats: list[Seat], _: Random) -> Outcomes | Trouble:
        words = dict(do="check", answer=answer, check=check, seed=cases.seed, lang=language())
        came = Hub(seats, [Frame(words)], lambda *_: Frame(0), cpu_s=CPU_S).run()
        return came if isinstance(came, Trouble) else {_HIDDEN.name: _failure(came[0].words)}

    return Judge(
        check=check,
        answer=answer,
        criteria=(_HIDDEN,),
        draw=lambda random: [Cases(random.getrandbits(32))],
        examine=examine,
        shows=lambda _: [_HIDDEN.name],
        advisory=REASON,
    )


def _failure(words: dict[str, Any]) -> Failure | None:
    said = words["done"]
    if said == "passed":
        return None
    if isinstance(said, list) and len(said) == 4 and all(isinstance(one, str) for one in said):
        return Failure(*said)
    return Failure("nonsense", t("a verdict.", "一个判定。"), t("none.", "没有。"))
