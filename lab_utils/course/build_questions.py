"""The questions of the sources, written beside the package where `ask` looks them up, and the
facts from which page 00 draws its map."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .build_source import Source, is_question, questions_of
from .questions import Question, packed

_CHECKED = re.compile(r"\bcheck\.(\w+)\(")


def folder(root: Path) -> Path:
    """Where the questions of a repository live: in its lab_utils, or beside its lessons."""
    package = root / "lab_utils" / "course" / "questions"
    return package if package.is_dir() else root / "questions"


def files(root: Path, sources: Iterable[Source]) -> dict[Path, str]:
    """Every file with its text. Raises SourceError."""
    sources, home = list(sources), folder(root)
    made = {}
    if home.name == "questions" and home.parent.name == "course":  # page 00 draws this course only
        made[home / "map.json"] = json.dumps(_map(sources), ensure_ascii=False, indent=1) + "\n"
    for source in sources:
        asked = [
            q for cell in source.cells if is_question(cell) for q in questions_of(source, cell)
        ]
        if asked:
            made[home / f"{source.name}.json"] = packed(asked)
    return made


def write_questions(root: Path, sources: Iterable[Source]) -> None:
    """Write them; files that are right already are left alone, those that no source asks go."""
    made = files(root, sources)
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in set(folder(root).glob("*.json")) - set(made):
        path.unlink()


def stale_questions(root: Path, sources: Iterable[Source]) -> Iterator[str]:
    """One sentence for each file that is not what the sources say."""
    made = files(root, sources)
    for path in sorted({*made, *folder(root).glob("*.json")}):
        if not path.exists() or path.read_text(encoding="utf-8") != made.get(path):
            name = path.relative_to(root)
            yield f"{name} is not what the sources say: run python -m lab_utils build."


def _map(sources: list[Source]) -> list[dict[str, Any]]:
    """Each lesson with what it needs, its questions, and the checks of its lab; in its place among
    them each lab that has no lesson."""
    labs = {source.name[:2]: source for source in sources if source.room == "solutions"}
    lessons = {source.name[:2]: source for source in sources if source.room == "lessons"}
    return [
        {
            "name": source.name,
            "title": source.front.title,
            "minutes": source.front.minutes,
            "needs": [need[:2] for need in source.front.needs],
            "lesson": number in lessons,
            "lab": labs[number].name if number in labs else None,
            "questions": [question.id for question in _asked(source)],
            "exercises": sorted({*_checks(labs.get(number))}),
        }
        for number, source in sorted((labs | lessons).items())
    ]


def _asked(source: Source) -> list[Question]:
    return [q for cell in source.cells if is_question(cell) for q in questions_of(source, cell)]


def _checks(lab: Source | None) -> Iterator[str]:
    for cell in lab.cells if lab else ():
        if cell.cell_type == "code":
            yield from _CHECKED.findall(cell.source)
