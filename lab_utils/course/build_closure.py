"""What the outputs of a notebook depend on: its import closure, found by reading, not by running.

The closure holds the modules that the code cells import, what those import in turn (inside
functions too, under TYPE_CHECKING not), the `__init__` of every package on the way, and the data
files that lie beside them. Three kinds of names are followed to the one module that they mean:

* a name of a lazy module (one with `__getattr__` and a table NAME → module), so that
  `check.bucketed` leads to lab 05 alone;
* a submodule that is reached as an attribute;
* a string that is the full name of a module, which is how the fork server is told what to load.

What even so cannot be seen stands in `UNSEEN`. That nothing else is missing is not believed: the
build executes under a tracer and refuses a notebook that opened a file outside its closure.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .build_modules import (
    PACKAGE,
    bound_in,
    home_of,
    is_lazy,
    is_module_name,
    lazy_names,
    otherwise,
    package_of,
    path_of,
    relative,
    table_node,
    tree_of,
)
from .build_source import parsed
from .questions import ELSEWHERE

# questions are looked up by id, NN-name in NN_*.json: a notebook needs those that it asks for
QUESTIONS = Path(__file__).with_name("questions")
ASKED = re.compile(r"\"(\d\d)-[\w-]+\"")
MAP, READS_MAP = QUESTIONS / "map.json", re.compile(r"\b(course_map|placement)\(")
UNSEEN = {"lab_utils.course.build_outputs": "cleans and draws the outputs of every notebook"}


class Wanted(NamedTuple):
    """A module, and one name of it where only that name is meant ("" for the module itself)."""

    module: str
    name: str = ""


def closure(code: Iterable[str]) -> dict[str, str]:
    """File (relative to the package's parent, with /) → digest of its content, for every file that
    the cells' `code` can load."""
    code = tuple(code)
    todo = [*map(Wanted, UNSEEN), *_of_cells(code)]
    seen: set[Wanted] = set()
    while todo:
        wanted = todo.pop()
        if wanted in seen:
            continue
        seen.add(wanted)
        todo += _of_module(wanted.module) if not wanted.name else _of_name(*wanted)
    names: dict[str, set[str]] = {}
    for module, name in seen:
        names.setdefault(module, set()).add(name)
    found = {
        relative(path_of(module)): _digest(module, frozenset(asked))
        for module, asked in names.items()
    }
    for folder in {path_of(module).parent for module in names}:
        found |= {relative(path): _digest_of_data(path) for path in data_files(folder)}
    return dict(sorted((found | _questions(code)).items()))


def inputs_digest(code: list[str]) -> str:
    """What the outputs of a notebook depend on: its code cells, in order, and their closure."""
    return hashlib.sha256(json.dumps([code, closure(code)]).encode()).hexdigest()[:16]


def _questions(code: tuple[str, ...]) -> dict[str, str]:
    """The files that hold the questions which the cells name, as `closure` gives files; and the map
    of the course for a page that draws it."""
    folders = {QUESTIONS, Path(os.environ.get(ELSEWHERE) or QUESTIONS).resolve()}
    found = [MAP] if MAP.exists() and any(map(READS_MAP.search, code)) else []
    for number in {number for cell in code for number in ASKED.findall(cell)}:
        found += (path for folder in folders for path in folder.glob(f"{number}_*.json"))
    return {
        relative(path) if path.parent == QUESTIONS else path.name: _digest_of_data(path)
        for path in found
    }


@functools.cache
def data_files(folder: Path) -> tuple[Path, ...]:
    """What lies in `folder`, and in its folders that hold no module, and is neither Python nor a
    file of questions."""
    if folder == QUESTIONS:
        return tuple(sorted([*folder.glob("*.js"), *folder.glob("*.css")]))
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            found.append(path)
        elif path.is_dir() and path.name != "__pycache__" and not any(path.rglob("*.py")):
            found += data_files(path)
    return tuple(found)


def wants(tree: ast.AST, package: str) -> Iterator[Wanted]:
    """What code asks of lab_utils; `package` is the one that its relative imports start from."""
    bound: dict[str, str] = {}
    nodes = list(_nodes(tree))
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if path_of(alias.name):
                    yield Wanted(alias.name)
                    bound[alias.asname or PACKAGE.name] = (
                        alias.name if alias.asname else PACKAGE.name
                    )
        elif isinstance(node, ast.ImportFrom):
            home = home_of(node, package)
            if path_of(home):
                for alias in node.names:
                    yield from _asked(home, alias.name)
                    if module := _module(home, alias.name):
                        bound[alias.asname or alias.name] = module
        elif isinstance(node, ast.Constant) and is_module_name(node.value):
            yield Wanted(node.value)
    yield from _attributes(nodes, bound)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs, parents first: not what stands under `if TYPE_CHECKING`, nor a table of
    lazy names."""
    table = table_node(tree) if isinstance(tree, ast.Module) else None
    left = [tree]
    while left:
        node = left.pop()
        if node is table:
            continue
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            left += node.orelse
            continue
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                left.append(value)
            elif isinstance(value, list):
                left += [item for item in value if isinstance(item, ast.AST)]


def _attributes(nodes: list[ast.AST], bound: dict[str, str]) -> Iterator[Wanted]:
    """What is reached through a name that is bound to a module: `check.bucketed`,
    `lab_utils.course.show`. A lazy module that is handed about whole may be asked for anything."""
    known = {
        id(node): bound[node.id]
        for node in nodes
        if isinstance(node, ast.Name) and node.id in bound
    }
    # a chain hangs from its right end: from the last node to the first, its left end comes first
    for node in reversed(nodes if known else []):
        home = known.pop(id(node.value), None) if isinstance(node, ast.Attribute) else None
        if home is not None:
            yield from _asked(home, node.attr)
            if module := _module(home, node.attr):
                known[id(node)] = module
    for home in known.values():
        yield from (Wanted(home, name) for name in lazy_names(home))


def _asked(home: str, name: str) -> Iterator[Wanted]:
    """`from home import name`, or `home.name`."""
    yield Wanted(home)
    if name == "*":
        yield from (Wanted(home, entry) for entry in lazy_names(home))
    elif name in lazy_names(home):
        yield Wanted(home, name)
    elif path_of(f"{home}.{name}"):
        yield Wanted(f"{home}.{name}")
    elif is_lazy(home) and name not in bound_in(home):
        yield from map(Wanted, otherwise(home))


def _module(home: str, name: str) -> str | None:
    """The module that `home.name` is, if it is one."""
    if path_of(f"{home}.{name}"):
        return f"{home}.{name}"
    entry = lazy_names(home).get(name)
    return _module(entry, name) if entry and entry != home else None


@functools.cache
def _of_cells(code: tuple[str, ...]) -> tuple[Wanted, ...]:
    """What the cells ask for, as one program: a name that one of them imports is used in others."""
    body = [statement for cell in code for statement in parsed(cell).body]
    return tuple(wants(ast.Module(body, []), ""))


@functools.cache
def _of_module(module: str) -> tuple[Wanted, ...]:
    """What importing a module asks for: its parents, and all that its code names."""
    parents = module.split(".")[:-1]
    above = [Wanted(".".join(parents[: i + 1])) for i in range(len(parents))]
    return (*above, *wants(tree_of(module), package_of(module)))


def _of_name(module: str, name: str) -> tuple[Wanted, ...]:
    """What the lazy `name` of a module leads to."""
    home = lazy_names(module)[name]
    return tuple(_asked(home, name))


@functools.cache
def _digest_of_data(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@functools.cache
def _digest(module: str, names: frozenset[str]) -> str:
    """Digest of a module's text; of a lazy one, without the entries that nobody asked for."""
    path, table = path_of(module), table_node(tree_of(module))
    text = path.read_text(encoding="utf-8")
    if table is not None:
        lines = text.splitlines()
        entries = [
            f"{key.value}: {ast.unparse(value)}"
            for key, value in zip(table.value.keys, table.value.values, strict=True)
            if key.value in names
        ]
        text = "\n".join([*lines[: table.lineno - 1], *entries, *lines[table.end_lineno :]])
    return hashlib.sha256(text.encode()).hexdigest()
