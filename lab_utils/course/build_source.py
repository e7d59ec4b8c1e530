"""A bilingual source, lessons/source/NN_name.md, and what is one language's of it.

A source is MyST Markdown: YAML front matter (`title`, `minutes`, `needs`, `objectives`), prose,
```{code-cell} blocks, `+++` between prose cells. lessons/source/README.md tells authors how to
write one.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import yaml
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

from ..i18n import LANGUAGES, t
from .build_words import WordsError, resolve
from .questions import Question, QuestionError, parse

SPLIT = re.compile(r"^<!-- zh -->[ \t]*$", re.M)
SHARED = "<!-- shared -->"
FRONT = re.compile(r"\A---\n(.*?)^---\n", re.M | re.S)
NOTE = re.compile(r"#\s*(en|zh):\s*(.*)")
STUB_LINE = re.compile(r"^[ \t]*# stub: ?(.*)\n", re.M)
SOLUTION = re.compile(
    r"^([ \t]*)# BEGIN SOLUTION[ \t]*([^\n]*)\n(.*?)^[ \t]*# END SOLUTION[^\n]*\n?", re.M | re.S
)
# faults that a lab hands out, in the place of what mends them
MENDED = re.compile(r"^[ \t]*# BEGIN MENDED\n(.*?)^[ \t]*# END MENDED\n?", re.M | re.S)


class SourceError(Exception):
    """A source that cannot be built; the message names file and cell and says what would work."""


@dataclass(frozen=True)
class Front:
    """The front matter: texts by language, minutes of the core, names of the lessons needed,
    objectives by id."""

    title: dict[str, str]
    minutes: int | None
    needs: tuple[str, ...]
    objectives: dict[str, dict[str, str]] | None


@dataclass(frozen=True)
class Source:
    """One source as written. `room` is lessons or solutions; `cells` hold both languages and have
    their ids."""

    path: Path
    room: str
    front: Front
    cells: list[NotebookNode]

    @property
    def name(self) -> str:
        return self.path.stem

    def where(self, cell: NotebookNode | None = None) -> str:
        """File and cell, for messages: the cell by its place and its first line."""
        file = f"{self.room}/source/{self.path.name}"
        if cell is None:
            return file
        first = next((line for line in cell.source.splitlines() if line.strip()), "")
        return f"{file}, cell {self.cells.index(cell) + 1} ({first.strip()[:48]!r})"


def read_source(path: Path, room: str) -> Source:
    """Parse one source. Raises SourceError."""
    text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    head = FRONT.match(text)
    if head is None:
        raise SourceError(
            f"{room}/source/{path.name} must open with front matter between two lines of ---, at"
            " least a title."
        )
    try:
        front = _front(yaml.safe_load(head[1]) or {}, room)
    except (yaml.YAMLError, SourceError) as error:
        raise SourceError(f"{room}/source/{path.name}, front matter: {error}") from error
    cells = jupytext.reads(text[head.end() :], fmt="md:myst").cells
    seen: Counter[str] = Counter()
    for cell in cells:
        cell.source = cell.source.strip("\n")
        cell.id = (
            cell.metadata.pop("name", None)
            or hashlib.sha256(f"{cell.cell_type} {cell.source}".encode()).hexdigest()[:8]
        )
        seen[cell.id] += 1
        if seen[cell.id] > 1:
            cell.id += f"-{seen[cell.id]}"
    return Source(path, room, front, cells)


def _front(given: dict[str, Any], room: str) -> Front:
    unknown = sorted({*given} - {"title", "minutes", "needs", "objectives", "kernelspec"})
    if unknown:
        raise SourceError(
            f"{', '.join(unknown)} is not known; known are title, minutes, needs, objectives."
        )
    title = given.get("title")
    if not (isinstance(title, dict) and all(title.get(lang) for lang in LANGUAGES)):
        raise SourceError("title must be given in both languages, as title: {en: ..., zh: ...}.")
    if room == "lessons" and not (
        isinstance(given.get("minutes"), int) and isinstance(given.get("objectives"), list)
    ):
        raise SourceError(
            "a lesson gives minutes: (a whole number) and objectives: (a list, [] on a page that"
            " teaches none)."
        )
    objectives = given.get("objectives")
    for entry in objectives or []:
        if not (isinstance(entry, dict) and all(entry.get(key) for key in ("id", *LANGUAGES))):
            raise SourceError(f"an objective has id, en and zh; {entry!r} does not.")
    needs = tuple(str(n).zfill(2) for n in given.get("needs") or ())
    by_id = (
        None
        if objectives is None
        else {entry["id"]: {lang: entry[lang] for lang in LANGUAGES} for entry in objectives}
    )
    return Front(dict(title), given.get("minutes"), needs, by_id)


def prose_for(source: Source, cell: NotebookNode, lang: str) -> str:
    """One language of a prose cell. Raises SourceError when the cell does not say which half is
    which."""
    text = cell.source.strip()
    if text.startswith(SHARED):
        return text.removeprefix(SHARED).strip()
    halves = [half.strip() for half in SPLIT.split(text)]
    if len(halves) != 2 or not all(halves):
        raise SourceError(
            f"{source.where(cell)}: prose needs English, one line {'<!-- zh -->'}, then Chinese"
            f" (or {SHARED} on top where there are no words); it has {len(halves) - 1} such lines."
        )
    return halves[LANGUAGES.index(lang)]


def is_question(cell: NotebookNode) -> bool:
    """Whether a cell holds questions (YAML) and not code."""
    return cell.cell_type == "code" and "question" in cell.metadata.get("tags", [])


def questions_of(source: Source, cell: NotebookNode) -> list[Question]:
    """The questions of a cell. Raises SourceError."""
    try:
        entries = yaml.safe_load(cell.source)
        questions = parse(entries)
    except (yaml.YAMLError, QuestionError) as error:
        raise SourceError(f"{source.where(cell)}: {error}.") from error
    options = [option for entry in entries for option in (entry.get("options") or {}).values()]
    if lost := sorted({str(key) for option in options for key in option} - {*LANGUAGES}):
        raise SourceError(
            f"{source.where(cell)}: after a comma {', '.join(lost)} is no word of an option any"
            " more; put its words into quotation marks."
        )
    return questions


def code_for(source: Source, cell: NotebookNode, lang: str, lab: bool) -> str:
    """The code of a cell with one language's comments; in a lab, stubs in the place of answers.
    Raises SourceError."""
    try:
        text = resolve(one_language(cell.source, lang), lang)
    except (tokenize.TokenError, SyntaxError) as error:
        raise SourceError(f"{source.where(cell)} is not Python: {error}.") from error
    except WordsError as error:
        raise SourceError(f"{source.where(cell)}: {error}.") from error
    text = SOLUTION.sub(
        lambda m: _stub(m[1], m[2], m[3], cell.id, lang) if lab else STUB_LINE.sub("", m[3]), text
    )
    text = MENDED.sub(
        lambda m: (
            "".join(f"{line}\n" for line in STUB_LINE.findall(m[1]))
            if lab
            else STUB_LINE.sub("", m[1])
        ),
        text,
    )
    if mark := re.search(r"# (?:BEGIN|END) (SOLUTION|MENDED)", text):
        raise SourceError(
            f"{source.where(cell)}: every # BEGIN {mark[1]} needs its # END {mark[1]}, on lines of"
            " their own, in the same cell."
        )
    return text.strip("\n")


def one_language(code: str, lang: str) -> str:
    """`# en:` and `# zh:` comments of `lang` lose their mark, those of the other language go.

    A comment that stands under its translation at the end of a line takes that one's place.
    """
    lines = code.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    notes = {
        token.start: match
        for token in tokens
        if token.type == tokenize.COMMENT and (match := NOTE.fullmatch(token.string))
    }
    for (number, column), note in sorted(notes.items(), reverse=True):
        if (number, column) not in notes:  # its translation has taken its place
            continue
        row, before = number - 1, lines[number - 1][:column]
        above = notes.get((number - 1, column))
        if note[1] != lang and before.strip():
            lines[row] = before.rstrip()
        elif note[1] != lang:
            del lines[row]
        elif not before.strip() and above and above[1] != lang and lines[row - 1][:column].strip():
            lines[row - 1] = f"{lines[row - 1][:column]}# {note[2]}"
            del lines[row], notes[number - 1, column]
        else:
            lines[row] = f"{before}# {note[2]}"
    return "\n".join(lines) + "\n"


def _stub(indent: str, first: str, answer: str, exercise: str, lang: str) -> str:
    kept = ([first] if first else []) + STUB_LINE.findall(answer)
    if not any("todo(" in line for line in kept):
        kept.append(f'todo("{exercise}")')
    return "".join(
        f"{indent}{line}\n" for line in [t("# YOUR CODE HERE", "# 在此处编写代码", lang), *kept]
    )


def parsed(code: str) -> ast.Module:
    """The syntax tree of a cell's code, IPython's magics included. Raises SyntaxError."""
    return ast.parse(TransformerManager().transform_cell(code))
