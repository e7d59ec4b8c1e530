"""A submitted notebook, read without being run: its code, and out of that the program which defines
one answer.

A program is a slice: the definition of the answer and, from wherever they stand, those of the names
that it uses, and of the names that these use. So it does not matter in which order the cells are,
which were deleted or came twice, or what the others would have done: checks, trainings, plots. A
name means what its own cell calls so; else what cells before it do; else what later ones do.
"""

from __future__ import annotations

import ast
import codecs
import json
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ENCODINGS = ("utf-8-sig", "gb18030", "cp1252")  # as editors on Windows save
MOST_BYTES = 200_000_000
STUBS = {"todo"}
LABS = Path(__file__).parents[2] / "labs" / "en"


class Unreadable(ValueError):
    """A file of which nothing can be graded; in one sentence, as (English, Chinese). `language`: of
    the notebook, as far as it says one."""

    def __init__(self, en: str, zh: str, language: str = "en") -> None:
        super().__init__(en)
        self.words, self.language = (en, zh), language


@dataclass(frozen=True)
class Program:
    """What defines an answer. `trouble`: why there is none, or why it may lack something, as
    (English, Chinese)."""

    source: str
    trouble: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Submission:
    """A notebook's code cells, and the language of its text ("en" or "zh"). `given`: the cells of
    the notebook as it was handed out, for names that are nowhere in this one."""

    cells: tuple[str, ...]
    language: str
    given: tuple[str, ...] = ()

    def program(self, name: str) -> Program:
        """The program that defines `name`."""
        statements, broken = _statements(self.cells)
        try:
            source = _slice(statements, name, _statements(self.given)[0])
        except (RecursionError, MemoryError):
            return Program("", (f"{name} is nested too deeply.", f"{name} 嵌套得太深。"))
        if source is not None:
            return Program(source)
        for cell, error in broken:
            if name in cell:
                return Program(
                    "",
                    (
                        f"the cell with {name} is no Python: {error.msg}, line {error.lineno}.",
                        f"{name} 所在的代码格不是合法的 Python：第 {error.lineno} 行，"
                        f"{error.msg}。",
                    ),
                )
        if any(name in _bound(one.node) for one in statements):
            return Program("", (f"{name} was not filled in.", f"{name} 还没有填写。"))
        return Program("", (f"there is no {name} in it.", f"里面没有 {name}。"))


def handed_out(lab: str) -> tuple[str, ...]:
    """The code cells of a lab's notebook as students get it; none where there are no notebooks."""
    for path in sorted(LABS.glob(f"{lab.removeprefix('lab')}_*.ipynb")):
        return read_submission(path).cells
    return ()


def read_submission(path: Path, given: tuple[str, ...] = ()) -> Submission:
    """Read a notebook as Jupyter, Colab or a text editor left it. Raises Unreadable."""
    if path.stat().st_size > MOST_BYTES:
        raise Unreadable("the file is larger than 200 MB.", "文件超过 200 MB。")
    raw = path.read_bytes()
    if not raw.strip():
        raise Unreadable("the file is empty.", "文件是空的。")
    try:
        notebook = json.loads(_decoded(raw))
    except (ValueError, RecursionError) as error:
        raise Unreadable(
            f"the file is no notebook: {error}.", f"这个文件不是 notebook：{error}。"
        ) from None
    cells = list(_cells(notebook))
    language = _language(notebook, "".join(source for _, source in cells))
    if not cells:
        raise Unreadable("there is no cell in it.", "里面没有代码格。", language)
    return Submission(tuple(source for kind, source in cells if kind == "code"), language, given)


def _language(notebook: Any, text: str) -> str:
    """As its metadata say, else by its text."""
    said = notebook
    for name in ("metadata", "lab", "lang"):
        said = said.get(name) if isinstance(said, dict) else None
    if said in ("en", "zh"):
        return said
    return "zh" if sum("\u4e00" <= c <= "\u9fff" for c in text) > len(text) / 50 else "en"


def _decoded(raw: bytes) -> str:
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", errors="replace")
    for encoding in ENCODINGS:
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8", errors="replace")


def _cells(notebook: Any) -> Iterator[tuple[str, str]]:
    """(kind, source) of each cell that is one."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else []:
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        if isinstance(source, str) and source.strip():
            yield str(cell.get("cell_type", "code")), source


class _Statement(NamedTuple):
    cell: int
    node: ast.stmt


def _statements(cells: Sequence[str]) -> tuple[list[_Statement], list[tuple[str, SyntaxError]]]:
    """The statements of all cells in their order, and the cells that are no Python."""
    statements, broken = list[_Statement](), list[tuple[str, SyntaxError]]()
    for number, cell in enumerate(cells):
        # the notebook's own commands are no Python, and none of ours
        lines = ["" if line.startswith(("%", "!", "?")) else line for line in cell.split("\n")]
        try:
            statements += [_Statement(number, n) for n in ast.parse("\n".join(lines)).body]
        except SyntaxError as error:
            broken.append((cell, error))
        except (ValueError, RecursionError, MemoryError) as error:
            broken.append((cell, SyntaxError(str(error))))
    return statements, broken


def _slice(statements: Sequence[_Statement], name: str, given: Sequence[_Statement]) -> str | None:
    """The statements that `name` needs, in their order, those that were given first; None if it is
    not defined, or a stub is all there is."""
    theirs = [one for one in statements if not _is_stub(one.node)]
    names = {bound for one in theirs for bound in _bound(one.node)}
    if name not in names:
        return None
    first = [_Statement(-1, node) for _, node in given if not _is_stub(node)]
    real = [*first, *theirs]
    binders: dict[str, list[int]] = {}  # by name: the numbers of those that bind it
    for number, one in enumerate(real):
        for bound in _bound(one.node) - (names if number < len(first) else set()):
            binders.setdefault(bound, []).append(number)
    chosen = set[int]()
    left = [*binders[name], *(n for n, one in enumerate(real) if _star(one.node) and one in theirs)]
    while left:
        number = left.pop()
        if number not in chosen:
            chosen.add(number)
            for used in _used(real[number].node):
                left += _meant(real, binders.get(used, ()), real[number].cell)
    return "\n\n".join(ast.unparse(real[number].node) for number in sorted(chosen))


def _meant(real: Sequence[_Statement], binders: Sequence[int], cell: int) -> Sequence[int]:
    """Which of those that bind a name are meant in a cell."""
    for nearest in (lambda at: at == cell, lambda at: at < cell):
        if found := [number for number in binders if nearest(real[number].cell)]:
            return found
    return binders


def _is_stub(node: ast.stmt) -> bool:
    """Whether it waits for an answer: a definition that calls todo(…)."""
    return isinstance(node, ast.FunctionDef | ast.ClassDef) and any(
        isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in STUBS
        for one in ast.walk(node)
    )


def _star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.names[0].name == "*"


def _bound(node: ast.stmt) -> set[str]:
    """Names that a statement gives a value, or whose attributes or items it sets."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(one.asname or one.name).partition(".")[0] for one in node.names}
    names = set[str]()
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            names.add(one.name)
        elif isinstance(one, ast.Import | ast.ImportFrom):
            names |= _bound(one)
        elif isinstance(getattr(one, "ctx", None), ast.Store):
            while isinstance(one, ast.Attribute | ast.Subscript | ast.Starred):
                one = one.value
            if isinstance(one, ast.Name):
                names.add(one.id)
    return names


def _used(node: ast.stmt) -> set[str]:
    """Names of the notebook's own that a statement reads: not a function's local ones."""
    names, scopes = set[str](), [symtable.symtable(ast.unparse(node), "", "exec")]
    for scope in scopes:
        outermost = scope.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in scope.get_symbols()
            if symbol.is_referenced() and (outermost or symbol.is_global())
        }
        scopes += scope.get_children()
    return names
