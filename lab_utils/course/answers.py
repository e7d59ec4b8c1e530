"""A learner's answers between sessions: what is kept of one that passed, and how another exercise
gets it back."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from ..i18n import t
from . import progress
from .check import HOMES
from .notebook import Todo


def source_of_answer(answer: Any) -> str | None:
    """The source of a function or class: of its whole cell, if a notebook defined it; None if it is
    not known."""
    code = _code(answer)
    if code is None:
        return None
    if not Path(code.co_filename).is_file():
        return "".join(linecache.getlines(code.co_filename)) or None
    try:
        return inspect.getsource(answer)
    except (OSError, TypeError):
        return None


def earlier(check: str) -> Any:
    """The learner's own answer to the exercise of check.NAME: what this kernel has under the
    answer's name, else what was saved when it passed.

    Raises Todo, in one sentence, if there is neither.
    """
    name, namespace = HOMES[check].answer, sys._getframe(1).f_globals
    if name in namespace:
        return namespace[name]
    source = progress.saved_answer(check)
    if source is None or name not in _defined(source):
        raise Todo(
            t(
                f"✏️ This cell needs your {name}: run its cell and check.{check}({name}) first."
                " Once it has passed, it is kept for later sessions.",
                f"✏️ 这一格要用到你的 {name}：请先运行它所在的代码格和 check.{check}({name})。"
                "通过一次之后，以后的会话会自动取用。",
            )
        )
    cell = dict(namespace)
    filename = f"<earlier {name}>"
    # so that a traceback can quote it
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), cell)
    return cell[name]


def _code(answer: Any) -> CodeType | None:
    """Some code object of a function or a class."""
    members = vars(answer).values() if isinstance(answer, type) else [answer]
    functions = (getattr(m, "__func__", getattr(m, "fget", m)) for m in members)
    return next((f.__code__ for f in functions if hasattr(f, "__code__")), None)


def _defined(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
