"""How a check watches an answer at work: on real ranks, case by case, with an end to its patience.

A rank tells what it saw as it goes, so that a crash or a hang in the fifth case still leaves the facts of the first
four, and the name of the fifth.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...i18n import t
from ...launch import LaunchError, emit, launch
from ...parallel.comm import Axis
from ..notebook import Todo
from .verdict import Failure

PATIENCE_S = 4.0        # for one case; a case takes milliseconds


class BrokenRule(Exception):
    """Raised inside a rank, in the middle of the learner's call, at the first thing that the exercise rules out."""

    def __init__(self, criterion: str, expected: str, came: str) -> None:
        super().__init__(came)
        self.failure = (criterion, expected, came)


class OutOfPatience(BaseException):
    """Raised inside a rank that computes for too long; no `except Exception` of the learner's catches it."""


@dataclass
class Observation:
    """What was seen: `facts[case][rank]`, for the cases that came to an end on every rank, and how it ended."""

    ranks: int
    facts: dict[int, dict[int, Any]] = field(default_factory=dict)
    last_case: int = 0
    broken: tuple[str, str, str] | None = None
    error: LaunchError | None = None

    def complete(self, case: int) -> list[Any] | None:
        """The facts of a case, by rank; None if some rank did not finish it."""
        by_rank = self.facts.get(case, {})
        return [by_rank[r] for r in range(self.ranks)] if len(by_rank) == self.ranks else None


def observe(body: Callable[..., None], ranks: int, *args: Any, patience: float = PATIENCE_S) -> Observation:
    """Run body(*args) on `ranks` real ranks; it calls `begin_case` and `saw`. Raises Todo if the answer is a stub."""
    seen, waiting = Observation(ranks), []

    def hear(rank: int, event: tuple[str, Any]) -> None:
        kind, value = event
        if kind == "case":
            seen.last_case = max(seen.last_case, value)
        elif kind == "saw":
            case, facts = value
            seen.facts.setdefault(case, {})[rank] = facts
        elif kind == "broken":
            seen.broken = seen.broken or value
        else:
            waiting.append(value)

    try:
        launch(_on_rank, ranks, body, args, patience, timeout=patience, threads=1, on_event=hear)
    except LaunchError as error:
        seen.error = error
    if waiting:
        raise Todo(waiting[0])
    return seen


def begin_case(number: int, patience: float, axis: Axis | None = None) -> None:
    """Inside a rank: the next case begins, and its clock; all ranks of `axis` begin it together.

    So a message too few or too many in one case is found there, and does not turn up in the next.
    """
    if axis is not None:
        axis.all_reduce(torch.zeros(1), purpose="control").wait()
    emit(("case", number))
    signal.setitimer(signal.ITIMER_REAL, patience)


def saw(number: int, facts: Any) -> None:
    """Inside a rank: the case ended, and this is what was seen."""
    emit(("saw", (number, facts)))


def _on_rank(body: Callable[..., None], args: tuple[Any, ...], patience: float) -> None:
    signal.signal(signal.SIGALRM, _out_of_patience)
    try:
        body(*args, patience=patience)
    except Todo as todo:
        emit(("todo", str(todo)))
    except BrokenRule as rule:
        emit(("broken", rule.failure))
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _out_of_patience(*_: Any) -> None:
    raise OutOfPatience


class Transfers(TorchDispatchMode):
    """Counts what really goes out through torch.distributed, whoever calls it: `count[op]`."""

    def __init__(self) -> None:
        super().__init__()
        self.count: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func.namespace == "c10d":
            name = func.name().removeprefix("c10d::").rstrip("_")
            self.count[name] = self.count.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


def crash(seen: Observation, case: str, criterion: str | None, patience: float = PATIENCE_S) -> Failure:
    """The failure behind a run that did not come to its end: by the rule it broke, else by how the launch ended.

    `criterion` is the name of what the case is there to show, if it is there for one thing; None takes the cause's.
    """
    if seen.broken:
        rule, expected, came = seen.broken
        return Failure(criterion if criterion and rule == "mismatch" else rule, expected, came, case)
    cause, headline = seen.error.cause, str(seen.error).partition("\n")[0]
    if cause == "raised" and "OutOfPatience" in headline:
        place, cause = _place(seen.error), "hung"
        headline = t(f"after {patience:g} s the function was still running{place}.", f"{patience:g} 秒之后函数仍未返回{place}。")
    elif cause == "raised":
        what = re.sub(r"^ranks? \d[^A-Za-z]*(and \d+ )?(raised |抛出了异常：)", "", headline)
        headline = what + _place(seen.error)
    expected = t("every rank returns, with no exception and nobody left waiting.", "每个 rank 都正常返回：不抛异常，也不让别人一直等。")
    return Failure(criterion or {"exited": "raised", "killed": "raised"}.get(cause, cause), expected, headline, case)


def _place(error: LaunchError) -> str:
    """The learner's own line, out of the traceback: the innermost frame that is not the package's."""
    frames = re.findall(r'File "(.*)", line (\d+), in (.*)\n\s+(.*)', error.traceback)
    own = [(function, code) for file, _, function, code in frames if "/lab_utils/" not in file.replace("\\", "/")]
    if not own:
        return ""
    function, code = own[-1]
    return t(f", in {function}, at: {code}", f"，位于 {function} 的这一行：{code}")
