"""What makes notebooks, answers learners and grades classes.

    from lab_utils.course import check, predict, quiz, show

`show` prints the real source of the package, `predict` and `quiz` ask, `check` (a module) judges an exercise.
"""

from __future__ import annotations

import importlib
from typing import Any

from .notebook import Todo, begin, todo
from .predict import predict, quiz
from .show import show

__all__ = ["Todo", "begin", "check", "predict", "quiz", "show", "todo"]


def __getattr__(name: str) -> Any:
    if name != "check":
        raise AttributeError(f"module 'lab_utils.course' has no attribute {name!r}")
    return importlib.import_module(".check", __name__)
