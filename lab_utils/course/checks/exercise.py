"""An exercise as one declaration, and the one examination that all of them pass through.

A lab is a package beside this file: `labNN/__init__.py` binds one Exercise for each of its
exercises to the check's name, `labNN/hints.md` holds the hints (see hints.py), and check.py names
the lab for each check. The solution is a cell of solutions/source, the planted answers are edits
of it in solutions/planted, and tests/labs judges them all by declaration. An exercise declares

    check      its id: check.NAME, the hints' heading, the file of the learner's progress
    answer     what the notebook calls the answer
    lab        the package with its hints, as "lab05"
    run        run(answer, cases, patience), on every rank: for case c it calls `begin_case`, puts
               the answer to work and tells `saw(moments·c + m, facts)` for each moment m (a step,
               a phase). It may return early when the verdict is clear on all ranks
    ask        in place of `run`, where a case takes one process and the answer is a function of
               plain values: ask(answer, case) -> facts. It does nothing with the answer but call
               it, so a grader can keep the answer in another process (grade/judges/by_call.py).
               With both, `run` has real ranks do what `ask` got from the answer
    judge      judge(case, facts by rank, moment) -> Failure or None; needs no `Failure.case`
    columns    of the table after a pass; value(case, told) with told[moment][rank]
    visible    the cases that the learner sees; a case has `str` (what the learner is told), and may
               have `ranks` (else 1) and `criterion` (the one thing that it is there to show)
    draw       draw(Random) -> the hidden cases
    moments    how often a case tells facts
    moment     moment(m) -> words that follow the case's; "" for none
    lines      lines(told cases) -> text under the table
    ended      ended(seen, case, moment) -> the Failure when the answer never came so far

Cases with the same number of ranks share a launch, and so may several answers.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from ...i18n import t
from .. import progress
from ..answers import source_of_answer
from ..check import HOMES
from ..hints import Ladder, read_hints
from ..notebook import Interrupted
from .ranks import PATIENCE_S, Observation, begin_case, crash, observe, patience_here, saw
from .verdict import Failure, Measured, Result

Told = list[list[Any]]  # [moment][rank]


class Column(NamedTuple):
    """A column of what a passing answer did: its heading in both languages, and its words for one
    case."""

    en: str
    zh: str
    value: Callable[[Any, Told], Any]


def _crash(seen: Observation, case: Any, _: int) -> Failure:
    return crash(seen, "", getattr(case, "criterion", None))


def _run_asking(
    ask: Callable[[Any, Any], Any],
    judge: Callable[[Any, list[Any], int], Failure | None],
    answer: Any,
    cases: Sequence[Any],
    patience: float,
) -> None:
    """Ask each case, until one is wrong."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        facts = ask(answer, case)
        saw(number, facts)
        if judge(case, [facts], 0):
            return


@dataclass(frozen=True)
class Exercise:
    """One exercise, as the module's text says; calling it judges an answer on the visible cases."""

    check: str
    answer: str
    lab: str
    judge: Callable[[Any, list[Any], int], Failure | None]
    columns: Sequence[Column]
    visible: Sequence[Any]
    draw: Callable[[Random], Sequence[Any]]
    run: Callable[..., None] | None = None
    ask: Callable[[Any, Any], Any] | None = None
    moments: int = 1
    moment: Callable[[int], str] = lambda _: ""
    lines: Callable[[list[tuple[Any, Told]]], Sequence[str]] = lambda _: ()
    ended: Callable[[Observation, Any, int], Failure] = _crash

    def __call__(self, answer: Any) -> Result:
        """Judge `answer` on the visible cases; a pass is kept with the learner's progress."""
        result = self.result(answer, self.visible)
        if result.passed:
            names = [column.en for column in self.columns]  # whatever the learner's language
            figures = zip(*result.measured.table[1:], strict=True)
            measured = {name: list(values) for name, values in zip(names, figures, strict=True)}
            progress.passed(self.check, measured, source_of_answer(answer))
        return result

    @cached_property
    def hints(self) -> dict[str, Ladder]:
        """Its ladders, by criterion."""
        return read_hints(Path(__file__).parent / self.lab / "hints.md")[self.check]

    def result(self, answer: Any, cases: Sequence[Any], name: str = "") -> Result:
        """What an attempt comes to on `cases`, with the hint that it has earned as `name`."""
        outcome = self.examine([answer], cases, patience_here())[0]
        return Result.of(name or self.check, outcome, answer, self.hints)

    def examine(
        self, answers: Sequence[Any], cases: Sequence[Any], patience: float = PATIENCE_S
    ) -> list[Failure | Measured]:
        """For each answer the first case that fails, in the order of their numbers of ranks in
        `cases`, or what was measured in each. `patience`: seconds for one case. Raises Interrupted,
        in one sentence, at an interrupt, Todo for a stub."""
        try:
            return self._examine(answers, cases, patience)
        except KeyboardInterrupt:
            raise Interrupted() from None

    def _examine(
        self, answers: Sequence[Any], cases: Sequence[Any], patience: float
    ) -> list[Failure | Measured]:
        failed: dict[int, Failure] = {}
        passed: dict[int, list[tuple[Any, Told]]] = {number: [] for number in range(len(answers))}
        body = self.run or partial(_run_asking, self.ask, self.judge)
        for ranks in dict.fromkeys(_ranks(case) for case in cases):
            mine = [case for case in cases if _ranks(case) == ranks]
            left = [number for number in passed if number not in failed]
            while left:
                work = [(answers[number], mine) for number in left]
                seen = observe(body, ranks, work, patience)
                for number, one in zip(left, seen, strict=False):
                    found = self._first_failure(one, mine)
                    if isinstance(found, Failure):
                        failed[number] = found
                    else:
                        passed[number] += found
                left = left[len(seen) :]
        return [failed.get(number) or self._measured(told) for number, told in passed.items()]

    def _first_failure(
        self, seen: Observation, cases: Sequence[Any]
    ) -> Failure | list[tuple[Any, Told]]:
        found = []
        for number, case in enumerate(cases):
            told = []
            for moment in range(self.moments):
                facts = seen.complete(self.moments * number + moment)
                failure = (
                    self.ended(seen, case, moment)
                    if facts is None
                    else self.judge(case, facts, moment)
                )
                if failure:
                    where = failure.case or f"{case}{self.moment(moment)}"
                    return failure._replace(case=where)
                told.append(facts)
            found.append((case, told))
        return found

    def _measured(self, told: list[tuple[Any, Told]]) -> Measured:
        rows = [tuple(t(column.en, column.zh) for column in self.columns)]
        rows += [tuple(str(c.value(case, facts)) for c in self.columns) for case, facts in told]
        return Measured(tuple(rows), tuple(self.lines(told)))


def exercises(lab: str) -> list[Exercise]:
    """The exercises of a lab ("lab05"), in their order."""
    package = importlib.import_module(f".{lab}", __package__)
    return [getattr(package, name) for name, home in HOMES.items() if home.lab == lab]


def run_hidden(
    lab: str,
    namespace: Mapping[str, Any],
    seed: int,
    cases: Mapping[str, Callable[[Random], Sequence[Any]]] | None = None,
) -> dict[str, Result | None]:
    """Judge a learner's namespace on hidden cases, by the answer's name; an answer that is missing
    from it is None.

    They are drawn from `seed` as the exercises declare, or, for the names in it, as `cases` says:
    that is where an instructor's own come in.
    """
    results: dict[str, Result | None] = {}
    for exercise in exercises(lab):
        # each its own: another exercise's cases must not change these
        draw = Random(f"{seed} {exercise.check}")
        answer = namespace.get(exercise.answer)
        drawn = (cases or {}).get(exercise.answer, exercise.draw)(draw)
        results[exercise.answer] = (
            None if answer is None else exercise.result(answer, drawn, f"hidden {exercise.check}")
        )
    return results


def _ranks(case: Any) -> int:
    return getattr(case, "ranks", 1)
