"""`show(fn)`: a notebook never repeats an implementation, it prints the real one, or the part of it
that matters."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..i18n import t
from .show_html import page

PACKAGE = Path(__file__).resolve().parents[1]
LINES = 25  # what one looks at before one has to scroll
Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Line(NamedTuple):
    """One line of an excerpt; `number` counts from 1 in the file, 0 is a line of ours."""

    number: int
    text: str


def source_of(thing: Any) -> tuple[str, int, str]:
    """The file where `thing` is defined ("lab_utils/room/file.py"), its first line there, and its
    source, dedented.

    Raises ValueError for anything that is not a function, a class, a method or a module of
    lab_utils.
    """
    thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
    refusal = ValueError(
        t(
            f"show prints functions, classes and modules of lab_utils; {thing!r} is none of them.",
            f"show 只能显示 lab_utils 里的函数、类和模块，{thing!r} 不在其中。",
        )
    )
    try:
        path = Path(inspect.getsourcefile(thing) or "").resolve()
        lines, first = inspect.getsourcelines(thing)
    except (TypeError, OSError) as error:
        raise refusal from error
    if not path.is_relative_to(PACKAGE):
        raise refusal
    where = path.relative_to(PACKAGE.parent).as_posix()
    source = textwrap.dedent("".join(lines)).rstrip()
    return where, 1 if isinstance(thing, ModuleType) else first, source


def show(*things: Any, start: str = "", lines: int = LINES, only: Sequence[str] = ()) -> None:
    """Print the source of functions, classes or modules of lab_utils, each under its file and line,
    highlighted: the first paragraph of every docstring, and of anything longer than `lines` the
    first ones.

    `start` chooses another part of one thing: its head, then `lines` lines from the first that
    holds this text. `only` chooses methods or attributes of one class. A comment says what is left
    out and where it stands. Raises ValueError for what is not lab_utils' own, and for a part that
    is not there.
    """
    from IPython.display import display

    if (start or only) and len(things) != 1:
        raise ValueError(
            t(
                "start and only choose a part of one thing: show them one by one.",
                "start 和 only 只能用来截取一个对象的一部分：请逐个 show。",
            )
        )
    for thing in things:
        heading, source = excerpt(thing, start, lines, only)
        display(
            {"text/html": page(heading, source), "text/plain": f"{heading}\n\n{source}"}, raw=True
        )


def excerpt(
    thing: Any, start: str = "", lines: int = LINES, only: Sequence[str] = ()
) -> tuple[str, str]:
    """The heading ("file:line", a module's without line) and the text that `show` prints. Raises
    ValueError."""
    where, first, source = source_of(thing)
    tree = ast.parse(source)
    written = [Line(first + i, text) for i, text in enumerate(source.splitlines())]
    brief = _short_docstrings(tree, written)
    if only:
        kept = _members(thing, tree, first, only)
    elif start:
        kept = _part(tree, brief, first, start, lines)
    else:
        kept = {line.number for line in brief[:lines]}
    # what a docstring says further down is not missed: no comment counts it
    quiet = {line.number for line in written} - {line.number for line in brief}
    shown = _with_gaps([line for line in brief if line.number in kept], written, quiet, where)
    heading = where if isinstance(thing, ModuleType) else f"{where}:{first}"
    return heading, "\n".join(line.text for line in shown)


def _short_docstrings(tree: ast.AST, written: list[Line]) -> list[Line]:
    """The lines, with every docstring cut after its first paragraph."""
    texts = {line.number: line.text for line in written}
    first = written[0].number
    for node in ast.walk(tree):
        if not isinstance(node, Block | ast.Module) or ast.get_docstring(node) is None:
            continue
        begin, end = (first - 1 + n for n in (node.body[0].lineno, node.body[0].end_lineno))
        gap = next((n for n in range(begin, end) if not texts[n].strip()), None)
        if gap is not None:
            texts[gap - 1] += '"""'
            for number in range(gap, end + 1):
                del texts[number]
    return [Line(number, text) for number, text in texts.items()]


def _head(tree: ast.Module, brief: list[Line], first: int) -> set[int]:
    """Line numbers of the decorators, the signature and the docstring."""
    block = tree.body[0]
    if not isinstance(block, Block):
        return set()
    after = next((s for s in block.body[bool(ast.get_docstring(block)) :]), None)
    end = block.end_lineno if after is None else _begin(after) - 1
    return {line.number for line in brief if line.number < first + end and line.text.strip()}


def _begin(node: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def _part(tree: ast.Module, brief: list[Line], first: int, start: str, lines: int) -> set[int]:
    """Line numbers of the head, and of `lines` lines from the first that holds `start`."""
    at = next((i for i, line in enumerate(brief) if start in line.text), None)
    if at is None:
        raise ValueError(t(f"no line holds {start!r}.", f"没有哪一行含有 {start!r}。"))
    return _head(tree, brief, first) | {line.number for line in brief[at : at + lines]}


def _members(thing: Any, tree: ast.Module, first: int, only: Sequence[str]) -> set[int]:
    """Line numbers of the head of a class and of the members named in `only`."""
    block = tree.body[0]
    body = block.body if isinstance(block, ast.ClassDef) else []
    found: dict[str, list[ast.stmt]] = {}
    for statement in body:
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        names = [getattr(statement, "name", None), *(getattr(n, "id", None) for n in targets)]
        for name in filter(None, names):
            found.setdefault(name, []).append(statement)
    missing = [name for name in only if name not in found]
    if missing:
        raise ValueError(
            t(
                f"{thing!r} has no {', '.join(missing)} of its own; it has {', '.join(found)}.",
                f"{thing!r} 自己没有 {'、'.join(missing)}；有的是 {'、'.join(found)}。",
            )
        )
    head = _begin(body[1] if ast.get_docstring(block) and len(body) > 1 else body[0])
    kept = set(range(first, first + head - 1))
    for statement in (s for name in only for s in found[name]):
        kept |= {first - 1 + n for n in range(_begin(statement), statement.end_lineno + 1)}
    return kept


def _with_gaps(kept: list[Line], written: list[Line], quiet: set[int], where: str) -> list[Line]:
    """The kept lines, with one comment wherever lines were left out that are neither blank nor
    quiet."""
    texts = {line.number: line.text.strip() for line in written if line.number not in quiet}
    shown: list[Line] = []
    expected, end = written[0].number, Line(written[-1].number + 1, "")
    for line in [*kept, end]:
        between = [n for n in range(expected, line.number) if n in texts]
        skipped = [n for n in between if texts[n]]
        if skipped:
            beside = line.text or shown[-1].text
            indent = beside[: len(beside) - len(beside.lstrip())]
            said = t(
                f"# … {len(skipped)} more lines: {where}:{skipped[0]}",
                f"# …… 还有 {len(skipped)} 行：{where}:{skipped[0]}",
            )
            shown.append(Line(0, f"{indent}{said}"))
        elif between and line is not end:
            shown.append(Line(0, ""))
        shown.append(line)
        expected = line.number + 1
    shown.pop()
    return shown
