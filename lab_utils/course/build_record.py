"""What an execution has shown: which outputs it changed, and that this machine has just run this
very notebook, so that the tests need not run it again."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from .build_closure import inputs_digest
from .build_rules import UNSTRICT

LIBRARIES = ("torch", "numpy", "plotly", "ipykernel", "IPython")
AROUND = 24  # characters of a changed line that are shown on either side of the first difference


def seal(made: NotebookNode) -> str:
    """A digest over the whole notebook but itself: any later edit breaks it."""
    lab = {key: value for key, value in made.metadata.lab.items() if key != "seal"}
    return hashlib.sha256(
        json.dumps({**made, "metadata": {**made.metadata, "lab": lab}}, sort_keys=True).encode()
    ).hexdigest()[:16]


def read_built(path: Path) -> NotebookNode | None:
    """The notebook at `path` if it is one that the build made and nobody edited."""
    try:
        found = nbformat.read(path, as_version=4)
    except (OSError, ValueError):
        return None
    return found if found.metadata.get("lab", {}).get("seal") == seal(found) else None


def code_of(made: NotebookNode) -> list[str]:
    """The sources of its code cells, in order."""
    return [cell.source for cell in made.cells if cell.cell_type == "code"]


def executed_here(path: Path) -> bool:
    """Whether the notebook at `path` (ROOT/ROOM/LANG/NAME.ipynb) was executed on this machine, with
    these libraries and this lab_utils, and printed what it holds now."""
    made, record = read_built(path), _record(path)
    return (
        made is not None
        and record.is_file()
        and record.read_text(encoding="utf-8") == _run(made)
        and made.metadata.lab.get("inputs") == inputs_digest(code_of(made))
    )


def remember_executed(path: Path) -> None:
    """Write down that the built notebook at `path` has just been executed here and printed what it
    holds. Raises ValueError for one that is not as built."""
    made = read_built(path)
    if made is None:
        raise ValueError(f"{path} is not a notebook as the build left it.")
    record = _record(path)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(_run(made), encoding="utf-8")


def _run(made: NotebookNode) -> str:
    """What a record holds: a digest of code and outputs (prose may change), and the machine's."""
    code = [(cell.source, cell.outputs) for cell in made.cells if cell.cell_type == "code"]
    return f"{hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()} {machine()}"


def _record(path: Path) -> Path:
    """One file for each notebook, so that processes that work side by side do not meet."""
    root, name = path.resolve().parents[2], path.resolve()
    return root / ".cache" / "executed" / "-".join(name.relative_to(root).with_suffix("").parts)


@functools.cache
def machine() -> str:
    """A digest of what an output may depend on beyond the repository: host, Python, libraries."""
    versions = []
    for library in LIBRARIES:
        try:
            versions.append(f"{library} {version(library)}")
        except PackageNotFoundError:
            versions.append(f"no {library}")
    facts = [platform.node(), platform.machine(), sys.version, *versions]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def changed_outputs(path: Path, new: NotebookNode) -> Iterator[str]:
    """One sentence for each cell of `new` whose strictly compared output is not what the cell of
    that id printed in the notebook at `path`; nothing when there is none."""
    try:
        old = nbformat.read(path, as_version=4)
    except (OSError, ValueError):
        return
    before = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in new.cells:
        if cell.cell_type != "code" or cell.id not in before:
            continue
        if UNSTRICT & {*cell.metadata.get("tags", [])}:
            continue
        was, now = _said(before[cell.id]), _said(cell)
        if was["text"] != now["text"]:
            yield f"cell {cell.id}: output changed, {_difference(was['text'], now['text'])}"
        elif was != now:
            kinds = sorted(kind for kind in {*was, *now} if was.get(kind) != now.get(kind))
            yield f"cell {cell.id}: output changed, not its words, in {', '.join(kinds)}"


def _said(cell: NotebookNode) -> dict[str, list[str]]:
    """What a cell printed, line by line: its words ("text"), and by kind all else but pictures
    (they follow from the figure's data) and where an error was raised."""
    said: dict[str, list[str]] = {"text": []}
    for output in cell.outputs:
        data = {key: output[key] for key in ("name", "text", "ename", "evalue") if key in output}
        for kind, value in (data | dict(output.get("data", {}))).items():
            if not kind.startswith("image/") or kind == "image/svg+xml":
                text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
                group = kind if "/" in kind and kind != "text/plain" else "text"
                said.setdefault(group, []).extend(text.splitlines())
    return said


def _difference(was: list[str], now: list[str]) -> str:
    """The first line that differs, around the place where it does."""
    at = next((i for i, pair in enumerate(zip(was, now, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(was), len(now)) if at is None else at
    old, new = (lines[at] if at < len(lines) else "" for lines in (was, now))
    same = next(
        (i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]),
        min(len(old), len(new)),
    )
    begin, end = max(0, same - AROUND), same + AROUND
    return f"{old[begin:end]!r} → {new[begin:end]!r}"
