"""Which room may import which, read from the source, and how long the light rooms take to load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from quiet import on_time

PACKAGE = Path(__file__).resolve().parents[1] / "lab_utils"
LIGHT = (
    "config",
    "report",
    "i18n",
    "verb",
    "__init__",
    "__main__",
    "doctor",
    "server",
    "layout",
    "estimate",
    "widgets",
)
HEAVY = {"torch", "deepspeed"}


def room_of(path: Path) -> str:
    """The room of a file: its folder in lab_utils, or its own name."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Absolute names of what a file imports, wherever in it, and whether only for type checking."""
    package = ["lab_utils", *path.relative_to(PACKAGE).parts[:-1]]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(n)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and "TYPE_CHECKING" in ast.unparse(test.test)
        for n in ast.walk(test)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
                if node.level
                else node.module or ""
            )
            yield from ((f"{base}.{alias.name}", id(node) in for_types) for alias in node.names)


def files(*rooms: str) -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not rooms or room_of(path) in rooms]


def breaks(paths: list[Path], forbidden: set[str], types_too: bool = False) -> list[str]:
    """Imports of `forbidden` packages or rooms; for type checking only they are allowed unless
    `types_too`."""
    found = []
    for path in paths:
        for name, only_types in imports_of(path):
            parts = name.split(".")
            target = ".".join(parts[:2]) if parts[0] == "lab_utils" else parts[0]
            if target in forbidden and (types_too or not only_types):
                found.append(f"{path.relative_to(PACKAGE.parent)} imports {name}")
    return found


def test_the_reader_of_imports_sees_every_way_to_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout/a.py").write_text(
        "import torch.nn\nfrom torch import nn\nfrom .. import measure\nfrom ..course.check import"
        " x\nfrom . import ring\ndef f():\n    import deepspeed\nif TYPE_CHECKING:\n    from"
        " ..engines import y\n"
    )
    assert list(imports_of(tmp_path / "layout/a.py")) == [
        ("torch.nn", False),
        ("torch.nn", False),
        ("lab_utils.measure", False),
        ("lab_utils.course.check.x", False),
        ("lab_utils.layout.ring", False),
        ("deepspeed", False),
        ("lab_utils.engines.y", True),
    ]
    assert (
        len(breaks(files(), {"torch", "deepspeed", "lab_utils.measure", "lab_utils.engines"})) == 4
    )


def test_light_rooms_never_import_torch():
    assert breaks(files(*LIGHT), HEAVY, types_too=True) == []


def test_light_rooms_never_import_rooms_that_do():
    heavy = {
        f"lab_utils.{room_of(path)}"
        for path in files()
        if any(name.split(".")[0] in HEAVY for name, _ in imports_of(path))
    }
    assert (
        breaks([p for p in files(*LIGHT) if room_of(p) not in ("__init__", "__main__")], heavy)
        == []
    )


def test_no_two_rooms_import_each_other_not_even_by_way_of_others():
    """Imports inside functions count; those for type checking do not."""
    rooms = {room_of(path) for path in files()}
    arrows: dict[str, set[str]] = {room: set() for room in rooms}
    for path in files():
        for name, only_types in imports_of(path):
            target = name.split(".")[1] if name.startswith("lab_utils.") else None
            if target in rooms - {room_of(path)} and not only_types:
                arrows[room_of(path)].add(target)
    assert {"parallel", "engines", "measure"} <= arrows["train"]
    # what a room reaches, grown until nothing is added
    reached = {room: set(targets) for room, targets in arrows.items()}
    for _ in rooms:
        for targets in reached.values():
            targets.update(*(reached[target] for target in list(targets)))
    assert [room for room, targets in reached.items() if room in targets] == []


def test_parallel_knows_no_estimate_no_instrument_no_engine_no_widget_no_course():
    assert (
        breaks(
            files("parallel"),
            {
                f"lab_utils.{room}"
                for room in ("estimate", "measure", "engines", "widgets", "course")
            },
        )
        == []
    )


def test_the_model_knows_nothing_of_parallelism():
    assert breaks(files("model"), {"lab_utils.parallel", "lab_utils.layout"}) == []


def test_only_the_course_knows_of_notebooks():
    """And who grades its labs knows the labs."""
    makers = {"jupytext", "nbformat", "nbclient", "nbconvert"}
    others = [p for p in files() if room_of(p) not in ("course", "__main__")]
    assert breaks(others, makers) == []
    knowing = ("grade", "commands")
    assert breaks([p for p in others if room_of(p) not in knowing], {"lab_utils.course"}) == []


def test_only_comm_calls_torch_distributed():
    """Mesh builds groups, launch starts and ends them, engines are the production libraries;
    collectives go through comm."""
    collectives = {
        "all_reduce",
        "all_gather_into_tensor",
        "all_gather_single",
        "reduce_scatter_tensor",
        "reduce_scatter_single",
        "broadcast",
        "send",
        "recv",
        "isend",
        "irecv",
        "batch_isend_irecv",
        "all_to_all_single",
        "barrier",
    }
    found = []
    for path in (p for p in files("parallel", "train", "measure") if p.name != "comm.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in collectives
            ):
                owner = ast.unparse(node.func.value)
                if owner in ("dist", "distributed", "torch.distributed"):
                    found.append(
                        f"{path.relative_to(PACKAGE.parent)}:{node.lineno} calls"
                        f" {owner}.{node.func.attr}"
                    )
    assert found == []


@pytest.mark.parametrize(
    "module",
    [
        "lab_utils",
        "lab_utils.widgets",
        "lab_utils.estimate",
        "lab_utils.course",
        "lab_utils.doctor",
    ],
)
def test_light_modules_load_in_300_ms_without_torch(module):
    """The best of five, each in a new process: a busy machine slows some of them, never all."""
    code = (
        f"import sys, time; t = time.perf_counter(); import {module}; print(time.perf_counter() -"
        " t, 'torch' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=PACKAGE.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(5)
    ]
    assert {torch for _, torch in runs} == {"False"}
    best = min(float(seconds) for seconds, _ in runs)
    on_time(best <= 0.3, f"{best:.2f} s to import {module}, of 0.3 s")


# -- fields ----------------------------------------------------------------------------------------


def fields_set_in(function: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def late_fields(source: str) -> list[str]:
    """Fields that no object has when its __init__ is over: first set by a method that neither is
    __init__ nor is called there, by the class or one that it inherits from in the same file."""
    found, known_of = [], dict[str, set[str]]()
    for one in [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]:
        methods = {f.name: f for f in one.body if isinstance(f, ast.FunctionDef)}
        known = set().union(*(known_of.get(ast.unparse(base), set()) for base in one.bases))
        known |= {
            name.id
            for statement in one.body
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            for name in ast.walk(statement)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
        }
        begin = methods.get("__init__") or methods.get("__post_init__")
        called = (
            {n.attr for n in ast.walk(begin) if isinstance(n, ast.Attribute)} if begin else set()
        )
        for name, method in methods.items():
            if method is begin or name in called:
                known |= fields_set_in(method)
        known_of[one.name] = known
        for name, method in methods.items():
            late = sorted(fields_set_in(method) - known)
            found += [f"{one.name}.{name} first sets {field}" for field in late]
    return found


def test_a_field_that_appears_late_is_found():
    assert late_fields("class A:\n    def run(self):\n        self.x = 1\n") == [
        "A.run first sets x"
    ]
    assert (
        late_fields(
            "class A:\n    def __init__(self):\n        self._begin()\n"
            "    def _begin(self):\n        self.x = 1\n"
            "class B(A):\n    y: int\n    def run(self):\n        self.x, self.y = 1, 2\n"
        )
        == []
    )


def test_objects_have_all_their_fields_from_the_start():
    found = {
        str(path.relative_to(PACKAGE)): late
        for path in files()
        if (late := late_fields(path.read_text(encoding="utf-8")))
    }
    assert not found
