"""The modules of lab_utils as text: where each stands, and what the names of a lazy one lead to.

A lazy module has a `__getattr__` that imports what is asked for: by a table NAME → module, or by
the constant names of the modules that it tries otherwise.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


@functools.cache
def path_of(module: str) -> Path | None:
    """The file of a module of lab_utils; None for any other name."""
    first, *rest = module.split(".")
    if first != PACKAGE.name or not all(part.isidentifier() for part in rest):
        return None
    place = PACKAGE.joinpath(*rest)
    files = (place / "__init__.py", place.with_suffix(".py") if rest else place)
    return next((file for file in files if file.is_file()), None)


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE.parent).as_posix()


def package_of(module: str) -> str:
    """The package that relative imports of a module start from."""
    return module if path_of(module).name == "__init__.py" else module.rpartition(".")[0]


def home_of(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of what a `from … import` takes from."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    return ".".join(filter(None, [*parts[: len(parts) - node.level + 1], node.module]))


def is_module_name(value: object) -> bool:
    return isinstance(value, str) and value.startswith(f"{PACKAGE.name}.") and bool(path_of(value))


def _getattr(tree: ast.Module) -> ast.FunctionDef | None:
    """The `__getattr__` of a lazy module."""
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((f for f in functions if f.name == "__getattr__"), None)


@functools.cache
def is_lazy(module: str) -> bool:
    return _getattr(tree_of(module)) is not None


@functools.cache
def bound_in(module: str) -> frozenset[str]:
    """The names that a module has as soon as it is imported."""
    names: set[str] = set()
    for node in tree_of(module).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        else:
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return frozenset(names)


def _imported_lazily(module: str) -> Iterator[ast.expr]:
    """What the `__getattr__` of a module gives to importlib.import_module."""
    for node in ast.walk(_getattr(tree_of(module)) or ast.Pass()):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield node.args[0]


def otherwise(module: str) -> list[str]:
    """The modules that a lazy module loads for names that are not in its table."""
    given = [a.value for a in _imported_lazily(module) if isinstance(a, ast.Constant)]
    return [
        f"{package_of(module)}{name}" for name in given if path_of(f"{package_of(module)}{name}")
    ]


def table_node(tree: ast.Module) -> ast.Assign | ast.AnnAssign | None:
    """The statement that gives a lazy module its table NAME → module; an entry is the module's
    name, or a call that has it as its first argument."""
    for statement in tree.body if _getattr(tree) else ():
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            value = statement.value
            if isinstance(value, ast.Dict) and all(map(_entry, value.values)):
                return statement
    return None


def _entry(value: ast.expr) -> str | None:
    first = value.args[0] if isinstance(value, ast.Call) and value.args else value
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


@functools.cache
def lazy_names(module: str) -> dict[str, str]:
    """Lazy names of a module → the full name of the module that holds each; empty for an eager
    one. What stands before the entry in the f-string that is imported is its place."""
    node = table_node(tree_of(module))
    if node is None:
        return {}
    made = (a.values[0] for a in _imported_lazily(module) if isinstance(a, ast.JoinedStr))
    place = next((part.value for part in made if isinstance(part, ast.Constant)), ".")
    keys = (ast.literal_eval(key) for key in node.value.keys)
    return {
        key: f"{package_of(module)}{place}{_entry(value)}"
        for key, value in zip(keys, node.value.values, strict=True)
    }
