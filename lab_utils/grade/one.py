"""One submission, graded: its record, plain data that goes to a file and from there to every page
and table."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..i18n import set_language
from .borrowed import borrowed
from .crew import HIDDEN, Crew
from .judges import judges_of
from .judges.judge import Judge, Mark, mark
from .limits import Limits
from .submission import Submission, Unreadable, handed_out, read_submission

WALL_S = 7200.0  # of an exercise; each call ends long before (patience.py)
# of a rank: nothing large is kept in files while memory is measured, and four fit a small machine
BY_KERNEL = Limits(wall_s=WALL_S, disk_bytes=1_000_000, memory_bytes=1_000_000_000)
# of a check with up to eight ranks of its own, each with threads for every one of its groups
BY_CHECK = Limits(wall_s=WALL_S, threads=256)
Record = dict[str, Any]


def key_of(path: Path, *more: str) -> str:
    """What a record depends on: the file, and `more`."""
    digest = hashlib.sha256("\0".join(more).encode())
    digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def grade_one(
    path: Path, student: str, lab: str, seed: str, key: str, hidden: Path | None
) -> Record:
    """The record of a submission. Raises RoomError, RuntimeError where the grader itself cannot
    work.

    Each version of a file gets inputs of its own: what an answer has made known of them, by an
    exception or by what it returned, is of no use for the next version.
    """
    began = time.monotonic()
    seed = f"{seed} {key_of(path)}"
    record: Record = dict(
        student=student, file=path.name, key=key, language="en", trouble=None, exercises=[]
    )
    judges = judges_of(lab, hidden)
    try:
        submission = read_submission(path, handed_out(lab))
    except Unreadable as error:
        record["trouble"] = list(error.words)
        submission = Submission((), error.language)
    record["language"] = submission.language
    set_language(submission.language)
    advisory: dict[str, str] = {}
    for judge in judges:
        marks, missing, source = _marks(judge, submission, seed)
        advisory |= missing
        beyond = borrowed(source, submission.given)
        record["exercises"].append(_exercise(judge, marks, source, beyond))
    record["advisory"] = [f"{name}: {reason}" for name, reason in sorted(advisory.items())]
    record["seconds"] = round(time.monotonic() - began, 1)
    return record


def _marks(
    judge: Judge, submission: Submission, seed: str
) -> tuple[Sequence[Mark], dict[str, str], str]:
    program = submission.program(judge.answer)
    limits, hidden = (BY_CHECK, ()) if judge.advisory else (BY_KERNEL, HIDDEN)
    with Crew(limits, hidden) as crew:
        marks = mark(judge, program, crew, seed)
    missing = dict(crew.missing)
    if judge.advisory:
        missing[judge.check] = judge.advisory[0]
    return marks, missing, program.source


def _exercise(judge: Judge, marks: Sequence[Mark], source: str, beyond: list[str]) -> Record:
    return dict(
        check=judge.check,
        answer=judge.answer,
        source=source,
        borrowed=beyond,
        advisory=judge.advisory,
        criteria=[
            dict(
                name=one.criterion.name,
                en=one.criterion.en,
                zh=one.criterion.zh,
                points=one.criterion.points,
                passed=one.passed,
                failure=one.failure._asdict() if one.passed is False else None,
            )
            for one in marks
        ],
    )


def points(record: Record) -> tuple[int, int]:
    """(earned, possible); what is blocked counts for neither."""
    every = [one for exercise in record["exercises"] for one in exercise["criteria"]]
    seen = [one for one in every if one["passed"] is not None]
    return sum(one["points"] for one in seen if one["passed"]), sum(one["points"] for one in seen)
