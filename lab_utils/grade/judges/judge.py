"""What a judge of one exercise declares, and how an answer gets its marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from ...course.checks.verdict import Failure
from ...i18n import t
from ..crew import Crew, LoadError
from ..hub import Trouble
from ..submission import Program

HANGS = 2  # after so many calls that came to no end the others are not tried
Outcomes = Mapping[str, Failure | None]  # by criterion


class Criterion(NamedTuple):
    """One thing that an answer is marked for, as the feedback page says it."""

    name: str
    en: str
    zh: str


@dataclass(frozen=True)
class Judge:
    """One exercise. `draw(random)` gives the calls to try; `examine(call, seats, random)` makes one
    and says, for each criterion that it shows, what was wrong with it, or Trouble; `shows(call)`
    names the criteria that a call which never ended fails."""

    check: str
    answer: str
    criteria: Sequence[Criterion]
    draw: Callable[[Random], Sequence[Any]]
    examine: Callable[[Any, list[Any], Random], Outcomes | Trouble]
    shows: Callable[[Any], Sequence[str]]
    advisory: str = ""  # why its marks are no more than advice


class Mark(NamedTuple):
    """Of one criterion: the first failure, or None."""

    criterion: Criterion
    failure: Failure | None


def mark(judge: Judge, program: Program, crew: Crew, seed: str) -> list[Mark]:
    """An answer's marks, in the order of the criteria. The same seed draws the same calls."""
    if not program.source:
        words = t("an answer.", "有答案。"), t(*program.trouble)
        return [Mark(one, Failure("missing", *words)) for one in judge.criteria]
    random, shown = Random(f"{seed} {judge.check}"), dict[str, Failure | None]()
    hangs = 0
    for call in judge.draw(random):
        if hangs == HANGS:
            outcomes = _all_fail(judge, call, _not_tried())
        else:
            outcomes, hung = _try(judge, call, program, crew, random)
            hangs += hung
        for name, failure in outcomes.items():
            shown[name] = shown.get(name) or failure
    return [Mark(one, shown.get(one.name, _not_tried())) for one in judge.criteria]


def _try(
    judge: Judge, call: Any, program: Program, crew: Crew, random: Random
) -> tuple[Outcomes, bool]:
    try:
        came = judge.examine(call, crew.seats(program.source, call.ranks), random)
    except LoadError as error:
        return _all_fail(judge, call, _ended("raised", str(error))), "running" in str(error)
    if isinstance(came, Trouble):
        where = f"rank {came.rank}: {came.words}"
        return _all_fail(judge, call, _ended(came.kind, where)), "still running" in came.words
    return came, False


def _all_fail(judge: Judge, call: Any, failure: Failure) -> Outcomes:
    return {name: failure._replace(case=str(call)) for name in judge.shows(call)}


def _ended(kind: str, words: str) -> Failure:
    expected = t(
        "every rank returns, with no exception and nobody left waiting.",
        "每个 rank 都正常返回：不抛异常，也不让别人一直等。",
    )
    return Failure(kind, expected, words)


def _not_tried() -> Failure:
    return Failure(
        "hung",
        t("every call comes to its end.", "每次调用都能结束。"),
        t("it was not tried: calls before it hung.", "没有再试：之前的调用一直没有结束。"),
    )
