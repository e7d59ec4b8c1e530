"""The answers that the labs' checks are tried with: each lab's solution, and edits of it.

`solutions/planted/NN_name.md` has a part `# check` for each exercise; in it `## passes: what is
different` or `## criterion: what is wrong` stands before one answer. A diff block edits the cell of
the solution that defines the answer, whose comments are left out: its hunks (between lines of @@)
must each fit in one place. A python block is a whole cell of its own.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab_utils.course.build_source import read_source
from lab_utils.course.build_words import resolve
from lab_utils.course.check import HOMES

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
SECTION = re.compile(r"^## (\S+): (.+)\n((?:.*\n)*?)```(diff|python)\n((?:.*\n)*?)```$", re.M)


@dataclass(frozen=True)
class Planted:
    """One answer. `criterion` is the one that it must fail by; None: it must pass."""

    check: str
    title: str
    criterion: str | None
    cell: str
    given: str = ""

    @property
    def answer(self) -> Any:
        """The function or class, as a notebook has it after its cell ran."""
        title = f"<{self.check}: {self.title}>"
        return define(self.cell, HOMES[self.check].answer, title, self.given)


def define(cell: str, name: str, filename: str, given: str = "") -> Any:
    """Run a cell after `given` and take `name` from it. A traceback will quote the cell's lines."""
    linecache.cache[filename] = (len(cell), None, cell.splitlines(keepends=True), filename)
    namespace = {"__name__": "__main__"}
    exec(given, namespace)
    exec(compile(cell, filename, "exec"), namespace)
    return namespace[name]


def given_before(cells: list[str], solution: str) -> str:
    """What the notebook has bound when it comes to `solution`: the imports and functions of the
    cells before it, but for other exercises' answers."""
    answers = {home.answer for home in HOMES.values()}
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    nodes = [node for cell in cells[: cells.index(solution)] for node in ast.parse(cell).body]
    bound = [n for n in nodes if isinstance(n, kinds) and getattr(n, "name", None) not in answers]
    return "\n".join(map(ast.unparse, bound))


def labs() -> list[str]:
    """The labs that have planted answers: the stems of their sources."""
    return sorted(path.stem for path in (SOLUTIONS / "planted").glob("*.md"))


@functools.cache
def planted(lab: str) -> list[Planted]:
    """Every answer of a lab, the solution itself the first of its exercise. Raises ValueError for
    an edit that does not fit."""
    cells = [
        resolve(cell.source, "en")
        for cell in read_source(SOLUTIONS / "source" / f"{lab}.md", "solutions").cells
        if cell.cell_type == "code"
    ]
    found = []
    text = (SOLUTIONS / "planted" / f"{lab}.md").read_text(encoding="utf-8")
    for part in re.split(r"^# ", text, flags=re.M)[1:]:
        check, _, body = part.partition("\n")
        defines = re.compile(rf"^(?:def|class) {HOMES[check].answer}\b", re.M)
        [solution] = [cell for cell in cells if defines.search(cell)]
        given = given_before(cells, solution)
        solution = re.sub(r"^ *# .*\n", "", solution, flags=re.M)
        found.append(Planted(check, "the solution", None, solution, given))
        sections = SECTION.findall(body)
        if len(sections) != body.count("\n## "):
            raise ValueError(f"{lab}, {check}: a part is not a title and one block")
        for criterion, title, _, kind, block in sections:
            cell = block if kind == "python" else edited(solution, block, f"{check}: {title}")
            expected = None if criterion == "passes" else criterion
            found.append(Planted(check, title, expected, cell, given))
    return found


def edited(cell: str, diff: str, where: str) -> str:
    """`cell` with the hunks of `diff` put in place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.M):
        lines = hunk.splitlines()
        old = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "+")
        new = "".join(f"{line[1:]}\n" for line in lines if line[:1] != "-")
        text = f"\n{cell.rstrip()}\n"
        if text.count(f"\n{old}") != 1:
            raise ValueError(f"{where}: {text.count(chr(10) + old)} places for\n{old}")
        cell = text.replace(f"\n{old}", f"\n{new}").strip("\n")
    return cell
