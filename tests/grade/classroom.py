"""Submissions to a lab as students hand them in: the student notebook with answers written into its
cells, and whatever else may be wrong with the file."""

from __future__ import annotations

import copy
import json
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "labs"))

from answers import Planted, labs, planted  # noqa: E402, F401  (labs: for others)

from lab_utils.course.check import HOMES  # noqa: E402

STEMS = {"lab05": "05_data_parallelism", "lab06": "06_zero"}
# planted as wrong, and right here: what the check forbids is not there in a room
OTHERWISE = {
    "goes around the axis in a thread": "no process group exists in a room: nothing was sent",
    "states in a file between steps": "1/N of the states is held, as bytes: the file is memory",
    "around the axis, in a thread": "no process group exists in a room: nothing was sent",
    "the step with the dispatch modes switched off": "the kernel's memory needs no dispatch modes",
    "a reduce-scatter with the dispatch modes switched off": "nor does the grader's own carrying",
    "a block runs with the dispatch modes switched off": "nor does it",
    "the update written out, with moments in lists": "1/N of the states is held, wherever it lies",
}


@cache
def _blank(lab: str, lang: str) -> str:
    path = ROOT / "labs" / lang / f"{STEMS[lab]}.ipynb"
    return path.read_text(encoding="utf-8")


def solutions(lab: str) -> dict[str, Planted]:
    """The solution of each exercise, by its check."""
    return {p.check: p for p in reversed(planted(STEMS[lab])) if p.criterion is None}


@cache
def right_answers(lab: str) -> dict[str, str]:
    """What the answer of each check is called, and its cell."""
    found: dict[str, str] = {}
    for one in planted(STEMS[lab]):
        found.setdefault(one.check, one.cell)
    return found


def notebook(lab: str, answers: dict[str, str], lang: str = "en") -> dict:
    """The student notebook with these answers (check → cell) in place of its stubs; of the other
    exercises the stubs stay."""
    found = json.loads(_blank(lab, lang))
    for check, source in answers.items():
        name = HOMES[check].answer
        [cell] = [c for c in found["cells"] if _defines("".join(c["source"]), name, c)]
        cell["source"] = source.splitlines(keepends=True)
    return found


def whole(lab: str, lang: str = "en", **changed: str) -> dict:
    """A notebook in which everything is right, but for the changed cells (check=cell)."""
    return notebook(lab, {**right_answers(lab), **changed}, lang)


def _defines(source: str, name: str, cell: dict) -> bool:
    return cell["cell_type"] == "code" and (
        f"\ndef {name}(" in f"\n{source}" or f"\nclass {name}:" in f"\n{source}"
    )


def hand_in(folder: Path, student: str, content: dict | str | bytes) -> Path:
    """Write a submission."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{student}.ipynb"
    if isinstance(content, dict):
        content = json.dumps(content, ensure_ascii=False)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def edited(content: dict, *changes: str) -> dict:
    """A notebook as careless hands leave it: "reversed" cells, "doubled" ones, "bare" of metadata,
    "loud" with 50 MB of outputs, without the cells of prose ("terse"), without any but those of the
    answers ("bones")."""
    found = copy.deepcopy(content)
    for change in changes:
        cells = found["cells"]
        if change == "reversed":
            found["cells"] = cells[::-1]
        elif change == "doubled":
            found["cells"] = [c for cell in cells for c in (cell, copy.deepcopy(cell))]
        elif change == "bare":
            found["metadata"] = {}
            for cell in cells:
                cell.pop("id", None)
                cell["metadata"] = {}
        elif change == "loud":
            loud = {"output_type": "stream", "name": "stdout", "text": "x" * 50_000_000}
            next(c for c in cells if c["cell_type"] == "code")["outputs"] = [loud]
        elif change == "bones":
            answers = [HOMES[check].answer for check in HOMES]
            found["cells"] = [
                c for c in cells if any(_defines("".join(c["source"]), name, c) for name in answers)
            ]
        elif change == "terse":
            found["cells"] = [c for c in cells if c["cell_type"] == "code"]
        else:
            raise ValueError(change)
    return found
