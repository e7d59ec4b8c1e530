"""One language of a cell's code: `t("English", "中文")` becomes the words of the page's language.

A learner then reads code that says its idea, not two languages at once. Where `t` is the whole of
a statement at the top of a function it becomes the docstring. A `t` whose words are made at run
time stays, with its import.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ..i18n import LANGUAGES

COLUMNS = 88  # how cells are laid out
# what JupyterLab shows at 1,280 px beside its open sidebar; a string or a comment may be as long
WIDEST = 100
_IMPORT = re.compile(r"^from lab_utils import (?:\(([^)]*)\)|([^\n(]*))(?=\n|\Z)", re.M)


class WordsError(ValueError):
    """Words that cannot be put into one language; the message says where and what would work."""


def resolve(code: str, lang: str) -> str:
    """`code` with every `t("…", "…")` replaced by its `lang` half, as it is written there.

    Raises SyntaxError for what is not Python, WordsError for a `t` inside an f-string and for
    halves that name different values.
    """
    if not re.search(r"\bt\(", code):
        return code
    data, tree = code.encode(), ast.parse(code)
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.JoinedStr) for n in ast.walk(f)}
    edits = []
    for call in ast.walk(tree):
        if not is_words(call):
            continue
        if id(call) in inside:
            raise WordsError(f"line {call.lineno}: t() inside an f-string; give it a name first")
        _same_values(call)
        half = call.args[LANGUAGES.index(lang)]
        begin, end = (starts[call.lineno - 1] + call.col_offset, _end(starts, call))
        text = data[starts[half.lineno - 1] + half.col_offset : _end(starts, half)]
        # two adjacent strings need brackets of their own
        edits.append(
            (begin, end, b"(" + text + b")" if b"\n" in text and b'"""' not in text else text)
        )
    for begin, end, text in sorted(edits, reverse=True):
        data = data[:begin] + text + data[end:]
    return data.decode()


def is_words(node: ast.AST) -> bool:
    """Whether a node is `t(…, …)` of two literal strings (f-strings included)."""
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "t"
        and len(node.args) == 2
        and all(isinstance(a, ast.JoinedStr) or _is_text(a) for a in node.args)
    )


def masked(tree: ast.Module) -> str:
    """What the languages must have in common of a cell as it is written: all but its words."""
    return ast.dump(_Mask(is_words).visit(tree))


def shape(tree: ast.Module) -> str:
    """What the languages must have in common of a page's cell, whose words stand in it: all but
    strings."""
    return ast.dump(
        _Mask(lambda node: _is_text(node) or isinstance(node, ast.JoinedStr)).visit(tree)
    )


class _Mask(ast.NodeTransformer):
    def __init__(self, hides: Callable[[ast.AST], bool]) -> None:
        self.hides = hides

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.Constant("…") if self.hides(node) else self.generic_visit(node)


def without_import(cells: Iterable[str]) -> list[str]:
    """The cells of a page; where none calls `t` any more, without its import."""
    cells = list(cells)
    if any(re.search(r"(?<![\w.])t\(", cell) for cell in cells):
        return cells
    return [_drop(cell) for cell in cells]


def _drop(cell: str) -> str:
    return re.sub(
        r"^from lab_utils import (?:\(([^)]*)\)|([^\n(]*))(?=\n|\Z)", _kept, cell, flags=re.M
    ).lstrip("\n")


def _kept(found: re.Match[str]) -> str:
    names = [name.strip() for name in (found[1] or found[2]).split(",") if name.strip()]
    rest = [name for name in names if name != "t"]
    if rest == names:
        return found[0]
    return f"from lab_utils import {', '.join(rest)}" if rest else ""


def _same_values(call: ast.Call) -> None:
    """Both halves must show the same values, or one page would say less than the other."""
    values = [
        sorted(ast.unparse(part) for part in getattr(half, "values", []) if not _is_text(part))
        for half in call.args
    ]
    if values[0] != values[1]:
        raise WordsError(f"line {call.lineno}: the halves of t() show different values, {values}")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _end(starts: list[int], node: ast.expr) -> int:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return starts[node.end_lineno - 1] + node.end_col_offset


def tidy(cells: Sequence[str]) -> list[str]:
    """Cells laid out anew by ruff, at COLUMNS: words in one language take less room than in two.
    What is no Python of its own (a magic, an unfinished line) stays as it is.

    Raises RuntimeError where ruff is not installed.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"cell{i}.py" for i in range(len(cells))]
        for path, cell in zip(paths, cells, strict=True):
            path.write_text(cell + "\n", encoding="utf-8")
        ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--quiet"]
        command = [*ruff, f"--line-length={COLUMNS}", folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if "No module named" in done.stderr:
            raise RuntimeError(
                "the build lays out code with ruff: pip install -r requirements-test.txt"
            )
        return [path.read_text(encoding="utf-8").rstrip("\n") for path in paths]
