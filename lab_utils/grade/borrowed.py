"""What an answer imports from the course's package that its notebook did not hand out: the engine
holds most of what the labs ask for. Listed without judgement, as answers that are alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

PACKAGE = "lab_utils"


def borrowed(source: str, given: Sequence[str]) -> list[str]:
    """Names, as "lab_utils.parallel.data_parallel", that `source` imports and no cell of `given`
    does."""
    handed_out = {name for cell in given for name in _imported(cell)}
    return sorted(set(_imported(source)) - handed_out)


def _imported(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, RecursionError):  # a magic of Jupyter's, a stub with a blank
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == PACKAGE)
