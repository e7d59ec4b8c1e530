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

MOST_RANKS = 8
ONCE_HUNG = 0.5  # of the usual patience is left for an answer that has come to no end before
Outcomes = Mapping[str, Failure | None]  # by criterion


class Criterion(NamedTuple):
    """One thing that an answer is marked for, as the feedback page says it; what it is worth; and
    whether it cannot be seen without a GPU, which no room has: it is blocked then."""

    name: str
    en: str
    zh: str
    points: int = 1
    needs_gpu: bool = False


# where an exercise's own cases judge
VISIBLE = Criterion(
    "visible cases", "the cases of the check in the notebook", "notebook 中自动检查的用例"
)
HIDDEN = Criterion("hidden cases", "the check's hidden cases", "自动检查的隐藏用例")


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
    advisory: tuple[str, str] | None = None  # why its marks are no more than advice (en, zh)


class Mark(NamedTuple):
    """Of one criterion: the first failure, or None. Where it is blocked, that says nothing."""

    criterion: Criterion
    failure: Failure | None

    @property
    def passed(self) -> bool | None:
        """None where it is blocked."""
        return None if self.criterion.needs_gpu else self.failure is None


def mark(judge: Judge, program: Program, crew: Crew, seed: str) -> list[Mark]:
    """An answer's marks, in the order of the criteria. The same seed draws the same calls, and the
    same inputs of each. A call that could only show again what has failed is left out, so that each
    criterion fails by one hang at the most. Raises ValueError where the judge is at fault."""
    if not program.source:
        words = t("an answer.", "有答案。"), t(*program.trouble)
        return [Mark(one, Failure("missing", *words)) for one in judge.criteria]
    seed, shown, patience = f"{seed} {judge.check}", dict[str, Failure | None](), 1.0
    blocked = {one.name for one in judge.criteria if one.needs_gpu}
    calls = list(judge.draw(Random(seed)))
    _refuse_calls(judge, calls)
    for number, call in enumerate(calls):
        if all(shown.get(name) or name in blocked for name in judge.shows(call)):
            continue
        try:
            seats = crew.seats(program.source, call.ranks, patience)
        except LoadError as error:
            failure = ended("raised", str(error))
            return [Mark(one, failure) for one in judge.criteria]
        came = judge.examine(call, seats, Random(f"{seed} {number}"))
        if isinstance(came, Trouble):
            patience = ONCE_HUNG if came.kind == "hung" else patience
            came = _all_fail(judge, call, ended(came.kind, _said(came, call), call.ranks))
        if set(came) != set(judge.shows(call)):
            words = f"{judge.check}: a call shows {sorted(judge.shows(call))}, and was judged on"
            raise ValueError(f"{words} {sorted(came)}")
        for name, failure in came.items():
            shown[name] = shown.get(name) or failure
    return [Mark(one, None if one.needs_gpu else shown[one.name]) for one in judge.criteria]


def _refuse_calls(judge: Judge, calls: Sequence[Any]) -> None:
    if (most := max((call.ranks for call in calls), default=0)) > MOST_RANKS:
        raise ValueError(f"{judge.check}: a call has {most} ranks, and may have {MOST_RANKS}")
    shown = {name for call in calls for name in judge.shows(call)}
    if never := {criterion.name for criterion in judge.criteria} - shown:
        raise ValueError(f"{judge.check}: no call shows {', '.join(sorted(never))}")


def _all_fail(judge: Judge, call: Any, failure: Failure) -> Outcomes:
    return {name: failure._replace(case=str(call)) for name in judge.shows(call)}


def ended(kind: str, words: str, ranks: int = 1) -> Failure:
    """Of an answer that did not come to its end."""
    expected = (
        t("the function returns, with no exception.", "函数正常返回，不抛异常。")
        if ranks == 1
        else t(
            "every rank returns, with no exception and nobody left waiting.",
            "每个 rank 都正常返回：不抛异常，也不让别人一直等。",
        )
    )
    return Failure(kind, expected, words)


def _said(trouble: Trouble, call: Any) -> str:
    """What went wrong; of a rank that is the only one without its number."""
    return trouble.words if call.ranks == 1 else str(trouble)


def not_done(rank: int) -> Trouble:
    """Of a rank that did not come to every gate."""
    words = t("it said that it was done, and was not", "它声称已完成，其实没有")
    return Trouble("nonsense", rank, words)
