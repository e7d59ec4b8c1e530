"""What makes notebooks, answers learners and grades classes.

    from lab_utils.course import ask, check, earlier, reveal, show

`ask` puts questions on the page and `reveal` holds a guess against a measurement, `show` prints the
real source of the package, `check` (a module) judges an exercise, `earlier` takes the learner's own
answer to one.
"""

from __future__ import annotations

import importlib
from typing import Any

from .answers import earlier
from .notebook import Todo, begin, todo
from .questions.ask import ask, covered, reveal
from .questions.overview import course_map, placement
from .show import show

__all__ = [
    "Todo",
    "ask",
    "begin",
    "check",
    "course_map",
    "covered",
    "earlier",
    "placement",
    "reveal",
    "show",
    "todo",
]


def __getattr__(name: str) -> Any:
    if name != "check":
        raise AttributeError(f"module 'lab_utils.course' has no attribute {name!r}")
    return importlib.import_module(".check", __name__)
