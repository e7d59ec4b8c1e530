"""A batch's files: grades.csv, canvas.csv, moodle.csv, gradescope/NAME.json, feedback/NAME.html and
summary.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..files import write_text
from . import pages, tables
from .one import Record
from .similar import alike


def write_report(records: Sequence[Record], lab: str, out: Path) -> None:
    """Write all of them into `out`."""
    for folder in ("feedback", "gradescope"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    write_text(out / "grades.csv", tables.grades(records))
    write_text(out / "canvas.csv", tables.canvas(records, lab))
    write_text(out / "moodle.csv", tables.moodle(records))
    for record in records:
        write_text(out / "feedback" / f"{record['student']}.html", pages.feedback(record))
        write_text(out / "gradescope" / f"{record['student']}.json", tables.gradescope(record))
    write_text(out / "summary.html", pages.summary(records, lab, alike(records)))
