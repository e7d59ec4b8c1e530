"""The whole script, put together from the learner's part and the right ones for all others."""

from __future__ import annotations

import ast
import hashlib
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from ....i18n import t
from ...answers import source_of_answer
from ...notebook import Todo

RIGHT = Path(__file__).with_name("right.py")


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
    part = Part(put_together([answer]))
    part.code()
    return part


def put_together(answers: Sequence[Any]) -> str:
    """The text of the script with each of `answers` in its place."""
    text = RIGHT.read_text(encoding="utf-8")
    for answer in answers:
        source = source_of_answer(answer)
        if source is None:
            raise Todo(
                t(
                    "The check writes your part into a script, and needs its text: run the cell"
                    " that defines it.",
                    "自动检查要把你的这一段写进脚本，需要它的源码：请先运行定义它的单元格。",
                )
            )
        text = _replaced(text, answer.__name__, source)
    return text


def _replaced(text: str, name: str, source: str) -> str:
    kinds = (ast.FunctionDef, ast.ClassDef)
    [node] = [n for n in ast.parse(text).body if isinstance(n, kinds) and n.name == name]
    lines = text.splitlines(keepends=True)
    return "".join([*lines[: node.lineno - 1], source.rstrip() + "\n", *lines[node.end_lineno :]])
