"""Records as tables: our own grades.csv, and what course systems import.

Canvas:      Gradebook → Import; its columns Student, ID, SIS User ID, SIS Login ID, Section, then
             one for the assignment. Only the student's name is known here: the ID columns are left
             for the instructor's own export to fill.
Moodle:      Grades → Import → CSV; Identifier, Grade, Feedback comments.
Gradescope:  results.json of one submission (autograder specification): tests with score, max_score
             and output.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from .one import Record, points
from .words import blocked_words, failure_words

OWN = ("student", "file", "language", "points", "of", "advisory", "trouble")


def grades(records: Sequence[Record]) -> str:
    """A row for each student: points and what they are of, a column for each criterion (its points
    or 0; "blocked": neither; empty: not graded), why marks are advisory, what was wrong with the
    file."""
    columns = list(dict.fromkeys(name for record in records for name, _ in _criteria(record)))
    rows = [[*OWN[:5], *columns, *OWN[5:]]]
    for record in records:
        mine, (earned, possible) = dict(_criteria(record)), points(record)
        rows.append(
            [
                record["student"],
                record["file"],
                record["language"],
                earned if possible else "",
                possible or "",
                *(mine.get(column, "") for column in columns),
                "; ".join(record["advisory"]),
                record["trouble"][0] if record["trouble"] else "",
            ]
        )
    return _csv(rows)


def canvas(records: Sequence[Record], assignment: str) -> str:
    """What Canvas's gradebook imports."""
    possible = max((points(record)[1] for record in records), default=0)
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    total = ["    Points Possible", "", "", "", "", possible]
    return _csv([head, total, *([r["student"], "", "", "", "", _earned(r)] for r in records)])


def moodle(records: Sequence[Record]) -> str:
    """What Moodle imports; the identifier is the student's name as the file had it."""
    rows = [["Identifier", "Grade", "Feedback comments"]]
    rows += [[r["student"], _earned(r), _comment(r)] for r in records]
    return _csv(rows)


def gradescope(record: Record) -> str:
    """results.json of one submission."""
    tests = [
        {
            "name": f"{exercise['answer']}: {one[record['language']]}",
            "score": _points(one) or 0,
            "max_score": 0 if one["passed"] is None else one["points"],
            "output": _output(one, record["language"]),
        }
        for exercise in record["exercises"]
        for one in exercise["criteria"]
    ]
    return json.dumps({"tests": tests, "output": _comment(record)}, ensure_ascii=False, indent=1)


def _criteria(record: Record) -> Iterable[tuple[str, int | str]]:
    for exercise in record["exercises"]:
        for one in exercise["criteria"]:
            mark = _points(one)
            yield f"{exercise['check']}: {one['name']}", "blocked" if mark is None else mark


def _points(criterion: dict[str, Any]) -> int | None:
    passed = criterion["passed"]
    return None if passed is None else criterion["points"] * passed


def _output(criterion: dict[str, Any], lang: str) -> str:
    if criterion["passed"] is None:
        return blocked_words(lang)
    return "" if criterion["passed"] else failure_words(criterion["failure"], lang)


def _earned(record: Record) -> Any:
    earned, possible = points(record)
    return earned if possible else ""


def _comment(record: Record) -> str:
    lines = []
    if record["trouble"]:
        lines.append(record["trouble"][record["language"] == "zh"])
    for exercise in record["exercises"]:
        firsts = [next((o for o in exercise["criteria"] if o["passed"] is False), None)]
        firsts += [one for one in exercise["criteria"] if one["passed"] is None]
        for one in filter(None, firsts):
            words = _output(one, record["language"])
            lines.append(f"{exercise['answer']}: {one[record['language']]} — {words}")
    return "\n".join(lines)


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    # a cell that begins with one of these is a formula to a spreadsheet
    safe = ([f"'{c}" if str(c)[:1] in "=+@\t\r" and c != "" else c for c in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue()
