"""How a check watches answers at work: on real ranks, case by case, with an end to its patience.

A rank tells what it saw as it goes, so that a crash or a hang in the fifth case still leaves the
facts of the first four, and the name of the fifth. Several answers may share a launch; the one
that breaks it is the last of it.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from traceback import TracebackException
from typing import Any

import torch

from ...i18n import t
from ...launch import LaunchError, emit, launch
from ...launch.errors import echo_of
from ...parallel.comm import Axis
from ..notebook import Todo
from .verdict import Failure

PATIENCE_S = 4.0  # for one case; a case takes milliseconds
MOST_PATIENT = 8  # times as much, on a machine that has far too much to do

_answer = 0  # inside a rank: which of the launch's answers is at work


class BrokenRule(Exception):
    """Raised inside a rank, in the middle of the learner's call, at the first thing that the
    exercise rules out."""

    def __init__(self, criterion: str, expected: str, came: str) -> None:
        super().__init__(came)
        self.failure = (criterion, expected, came)


class OutOfPatience(BaseException):
    """Raised inside a rank that computes for too long; no `except Exception` of the learner's
    catches it."""


@dataclass
class Observation:
    """What was seen of one answer: `facts[number][rank]`, as far as they were told, and how it
    ended."""

    ranks: int
    facts: dict[int, dict[int, Any]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)  # ranks on which every case came to its end
    broken: tuple[str, str, str] | None = None
    error: LaunchError | None = None
    patience: float = PATIENCE_S

    def complete(self, number: int) -> list[Any] | None:
        """The facts told as `number`, by rank; None if some rank did not come that far."""
        by_rank = self.facts.get(number, {})
        return [by_rank[r] for r in range(self.ranks)] if len(by_rank) == self.ranks else None


def observe(
    body: Callable[..., None],
    ranks: int,
    work: Sequence[tuple[Any, Sequence[Any]]],
    patience: float = PATIENCE_S,
) -> list[Observation]:
    """Run body(answer, cases, patience) for each (answer, cases) of `work`, in one launch of real
    ranks; it calls `begin_case` and `saw`.

    One Observation for each answer up to the first that did not come to its end; that one says why.
    Raises Todo if an answer is a stub.
    """
    seen, waiting, error = [Observation(ranks, patience=patience) for _ in work], [], None

    def hear(rank: int, event: tuple[str, int, Any]) -> None:
        kind, answer, value = event
        one = seen[answer]
        if kind == "saw":
            number, facts = value
            one.facts.setdefault(number, {})[rank] = facts
        elif kind == "done":
            one.done.add(rank)
        elif kind == "broken":
            one.broken = one.broken or value
        else:
            waiting.append(value)

    try:
        launch(_on_rank, ranks, body, work, patience, timeout=patience, threads=1, on_event=hear)
    except LaunchError as caught:
        error = caught
    if waiting:
        raise Todo(waiting[0])
    if error and "name 'todo' is not defined" in str(error):
        raise Todo(t("Run the first cell of this page, too.", "请先运行本页的第一个单元格。"))
    ended = next((n for n, one in enumerate(seen) if len(one.done) < ranks), len(seen) - 1)
    seen[ended].error = error
    return seen[: ended + 1]


def patience_here() -> float:
    """Seconds for one case on this machine as busy as it is: a class that shares it makes a right
    answer slow, and no less right."""
    waiting = os.getloadavg()[0] / (os.cpu_count() or 1)  # processes that want a core, by core
    return float(round(PATIENCE_S * min(max(1.0, waiting), MOST_PATIENT)))


def begin_case(number: int, patience: float, axis: Axis | None = None) -> None:
    """Inside a rank: the next case begins, and its clock; all ranks of `axis` begin it together.

    So a message too few or too many in one case is found there, and does not turn up in the next.
    """
    if axis is not None:
        axis.all_reduce(torch.zeros(1, dtype=torch.int8), purpose="control").wait()
    signal.setitimer(signal.ITIMER_REAL, patience)


def saw(number: int, facts: Any) -> None:
    """Inside a rank: this is what was seen, in the words of the exercise's judge."""
    emit(("saw", _answer, (number, facts)))


def _on_rank(
    body: Callable[..., None], work: Sequence[tuple[Any, Sequence[Any]]], patience: float
) -> None:
    global _answer
    _only_python_speaks()
    signal.signal(signal.SIGALRM, _out_of_patience)
    for _answer, (answer, cases) in enumerate(work):
        try:
            body(answer, cases, patience=patience)
            emit(("done", _answer, None))
        except Todo as todo:
            emit(("todo", _answer, str(todo)))
            raise
        except BrokenRule as rule:
            emit(("broken", _answer, rule.failure))
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def _only_python_speaks() -> None:
    """What the learner prints is heard; what C++, or a thread, says of a connection that broke when
    the verdict had long been reached is not."""
    threading.excepthook = _unless_an_echo
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def _unless_an_echo(raised: threading.ExceptHookArgs) -> None:
    if echo_of(TracebackException(raised.exc_type, raised.exc_value, None)) is None:
        threading.__excepthook__(raised)


def _out_of_patience(*_: Any) -> None:
    raise OutOfPatience


def crash(seen: Observation, case: str, criterion: str | None) -> Failure:
    """The failure behind an answer that did not come to its end: by the rule it broke, else by how
    the launch ended.

    `criterion` is the name of what the case is there to show, if it is there for one thing; None
    takes the cause's.
    """
    if seen.broken:
        rule, expected, came = seen.broken
        return Failure(
            criterion if criterion and rule == "mismatch" else rule, expected, came, case
        )
    cause, headline = seen.error.cause, str(seen.error).partition("\n")[0]
    if cause == "raised" and "OutOfPatience" in headline:
        place, cause = _place(seen.error), "hung"
        headline = t(
            f"after {seen.patience:g} s the function was still running{place}.",
            f"{seen.patience:g} 秒之后函数仍未返回{place}。",
        )
    elif cause == "raised":
        what = re.sub(r"^ranks? \d[^A-Za-z]*(and \d+ )?(raised |抛出了异常：)", "", headline)
        headline = what + _place(seen.error)
    returned = t("returned from the function", "已从函数返回")
    headline = headline.replace("all_reduce(int8 [1], sum)", returned)  # the gate of begin_case
    expected = (
        t("the function returns, with no exception.", "函数正常返回，不抛异常。")
        if seen.ranks == 1
        else t(
            "every rank returns, with no exception and nobody left waiting.",
            "每个 rank 都正常返回：不抛异常，也不让别人一直等。",
        )
    )
    cause = {"exited": "raised", "killed": "raised"}.get(cause, cause)
    return Failure(criterion or cause, expected, headline, case)


def _place(error: LaunchError) -> str:
    """The learner's own line, out of the traceback: the innermost frame that is not the
    package's."""
    frames = re.findall(r'File "(.*)", line (\d+), in (.*)\n\s+(.*)', error.traceback)
    own = [
        (function, code)
        for file, _, function, code in frames
        if "/lab_utils/" not in file.replace("\\", "/")
    ]
    if not own:
        return ""
    function, code = own[-1]
    return t(f", in {function}, at: {code}", f"，位于 {function} 的这一行：{code}")
