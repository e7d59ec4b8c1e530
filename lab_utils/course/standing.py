"""Where a learner stands, lesson by lesson: questions answered, exercises passed, and what the
passing answers measured. Read from the learner's folder and the course's map; loads no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..i18n import language, t
from ..text import Table, table
from . import progress
from .check import HOMES
from .questions import FOLDER, QuestionError, question

ANSWERS = "answers.json"  # what the pages keep: a question's id → {"value": …, "at": …}


@dataclass(frozen=True)
class Exercise:
    """One exercise: its check's name, whether a pass is kept, and what that pass measured."""

    check: str
    passed: bool
    measured: progress.Measured | None


@dataclass(frozen=True)
class Lesson:
    """One lesson of the map. `answers`: of its questions those that were answered, id → value."""

    number: str
    title: Mapping[str, str]
    questions: Sequence[str]
    answers: Mapping[str, Any]
    exercises: Sequence[Exercise]

    @cached_property
    def right(self) -> int:
        """How many of its questions that have an answer were answered rightly."""
        return sum(_is_right(name, value) for name, value in self.answers.items())

    @property
    def passed(self) -> list[Exercise]:
        """The exercises of its lab that have passed."""
        return [exercise for exercise in self.exercises if exercise.passed]


def standing() -> list[Lesson]:
    """Every lesson that there is, as the learner's folder knows it. What is damaged or of another
    course counts as not done."""
    answers, order = _answers(), [*HOMES]
    return [
        Lesson(
            number=entry["name"][:2],
            title=entry["title"],
            questions=entry["questions"],
            answers={name: answers[name] for name in entry["questions"] if name in answers},
            exercises=[
                Exercise(name, progress.was_passed(name), progress.measured_in(name))
                for name in sorted(entry["exercises"], key=order.index)
            ],
        )
        for entry in json.loads((FOLDER / "map.json").read_text(encoding="utf-8"))
    ]


def overview(lessons: Sequence[Lesson]) -> Table:
    """A row for each lesson: questions answered, and its exercises with a mark each."""
    head = [t("lesson", "课"), t("questions", "题目"), t("exercises", "练习"), ""]
    marks = [_marks(lesson) for lesson in lessons]
    width = max(map(len, marks), default=0)  # as wide as the widest: they stand to the left
    rows = [[*_counts(one), mark.ljust(width)] for one, mark in zip(lessons, marks, strict=True)]
    return table([head, *rows])


def as_json(lessons: Sequence[Lesson]) -> dict[str, Any]:
    """The same for other programs: ids and figures, no language."""
    return {
        lesson.number: {
            "questions": len(lesson.questions),
            "answered": len(lesson.answers),
            "right": lesson.right,
            "exercises": {
                one.check: {"passed": one.passed, "measured": one.measured}
                for one in lesson.exercises
            },
        }
        for lesson in lessons
    }


def my_progress() -> Table:
    """Page 00's table: how far the learner has come."""
    return overview(standing())


def _marks(lesson: Lesson) -> str:
    return "  ".join(f"{'✓' if one.passed else '·'} {one.check}" for one in lesson.exercises)


def _counts(lesson: Lesson) -> list[str]:
    answered, asked = len(lesson.answers), len(lesson.questions)
    return [
        f"{lesson.number} · {lesson.title[language()]}",
        f"{answered} / {asked}" if asked else "",
        f"{len(lesson.passed)} / {len(lesson.exercises)}" if lesson.exercises else "",
    ]


def _answers() -> dict[str, Any]:
    """The values that are kept, by question."""
    folder = progress.folder()
    try:
        kept = json.loads((Path(folder) / ANSWERS).read_text(encoding="utf-8")) if folder else {}
    except (OSError, ValueError):  # nothing yet, or damaged
        return {}
    found = kept.items() if isinstance(kept, dict) else ()
    return {
        name: entry["value"]
        for name, entry in found
        if isinstance(entry, dict) and entry.get("value") is not None
    }


def _is_right(name: str, value: Any) -> bool:
    try:
        return question(name).answer == value
    except QuestionError:
        return False
