"""The whole script, put together from the learner's part and the right ones for all others."""

from __future__ import annotations

import ast
import hashlib
import linecache
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from ....i18n import t
from ...answers import source_of_answer
from ...notebook import Todo
from ...show_html import page

# by their modules' names, so that the build knows that a notebook depends on them
RIGHT, FAULTS = (
    Path(__file__).with_name(f"{name.rpartition('.')[2]}.py")
    for name in ("lab_utils.course.checks.lab19.right", "lab_utils.course.checks.lab19.faults")
)


@dataclass(frozen=True)
class Part:
    """A script, as text that ranks can be given."""

    text: str

    @property
    def filename(self) -> str:
        """What a traceback calls it; another text has another name."""
        return f"<train.py {hashlib.sha256(self.text.encode()).hexdigest()[:8]}>"

    def code(self) -> CodeType:
        """Compiled, and known to tracebacks of this process."""
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.filename] = (len(self.text), None, lines, self.filename)
        return compile(self.text, self.filename, "exec")


def with_part(answer: Any) -> Part:
    """The script with `answer`, a function or class of a cell, in the place of its right one; the
    rest of the cell goes with it. Raises Todo where the cell's text is not known."""
    part = Part(put_together(RIGHT.read_text(encoding="utf-8"), [answer]))
    part.code()
    return part


def given() -> str:
    """The text of the script as the learner finds it: every part with its faults."""
    faults = FAULTS.read_text(encoding="utf-8")
    text = RIGHT.read_text(encoding="utf-8")
    for node in _parts(faults):
        text = _replaced(text, node.name, ast.get_source_segment(faults, node))
    return _without_docstring(text)


def put_together(text: str, answers: Sequence[Any]) -> str:
    """`text` with each of `answers` in the place of its part of that name."""
    for answer in answers:
        source = source_of_answer(answer)
        if source is None:
            raise Todo(
                t(
                    "This cell writes your part into a script, and needs its text: run the cell"
                    " that defines it.",
                    "这一格要把你的这一段写进脚本，需要它的源码：请先运行定义它的单元格。",
                )
            )
        text = _replaced(text, answer.__name__, _definitions(source))
    return text


def _definitions(cell: str) -> str:
    """What a cell defines: without IPython's own commands, and without calls, as of a check."""
    own = "\n".join("" if line.startswith(("%", "!", "?")) else line for line in cell.split("\n"))
    lines = own.split("\n")
    for node in ast.parse(own).body:
        if isinstance(node, ast.Expr):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (node.end_lineno - node.lineno + 1)
    return "\n".join(lines).strip("\n")


def write_given(name: str) -> None:
    """Write the script as it was found into this folder, and show it."""
    from IPython.display import display

    Path(name).write_text(given(), encoding="utf-8")
    display({"text/html": page(name, given()), "text/plain": f"{name}\n\n{given()}"}, raw=True)


def write_mine(name: str) -> None:
    """Write the script with those of its parts that the calling notebook has defined so far."""
    names = [node.name for node in _parts(FAULTS.read_text(encoding="utf-8"))]
    notebook = sys._getframe(1).f_globals
    mine = [notebook[one] for one in names if one in notebook]
    Path(name).write_text(put_together(given(), mine), encoding="utf-8")
    listed = t(", ", "、").join(part.__name__ for part in mine)
    if mine:
        print(t(f"{name} has your {listed}.", f"{name} 里的 {listed} 是你的。"))
    else:
        print(t(f"{name} is as it was found.", f"{name} 还是接手时的样子。"))


def _parts(text: str) -> list[ast.FunctionDef | ast.ClassDef]:
    return [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef | ast.ClassDef)]


def _replaced(text: str, name: str, source: str) -> str:
    [node] = [node for node in _parts(text) if node.name == name]
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: node.lineno - 1], source.rstrip() + "\n", *lines[node.end_lineno :]])


def _without_docstring(text: str) -> str:
    first = ast.parse(text).body[0]
    return "".join(text.splitlines(keepends=True)[first.end_lineno :]).lstrip("\n")
