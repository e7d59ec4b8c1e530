"""Judges of answers by evidence from outside: what the grader carried between the ranks, what came
back, what memory the kernel saw. A lab's judges are in `labNN.py`; no room can read them. Labs that
have none yet are judged by their own checks, inside the room (by_check.py)."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from traceback import extract_tb

from ...config import ConfigError
from ...i18n import t
from .judge import Judge


def judges_of(lab: str, hidden: Path | None = None) -> list[Judge]:
    """Of a lab ("lab05"), in the order of its exercises. `hidden`: an instructor's folder, whose
    `labNN.py` binds JUDGES: each takes the place of the one with its check, or comes after. Raises
    ConfigError if it binds none."""
    package = f"{__name__}.{lab}"
    if importlib.util.find_spec(package):
        found = list(importlib.import_module(package).JUDGES)
    else:
        from .by_check import judges_by_check

        found = judges_by_check(lab)
    own = {judge.check: judge for judge in _instructors(lab, hidden)}
    kept = [own.pop(judge.check, judge) for judge in found]
    return [*kept, *own.values()]


def _instructors(lab: str, hidden: Path | None) -> Sequence[Judge]:
    path = hidden and hidden / f"{lab}.py"
    if not path or not path.exists():
        return ()
    spec = importlib.util.spec_from_file_location(f"hidden_{lab}", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return list(module.JUDGES)
    except Exception as error:
        lines = [
            frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)
        ]
        line = f":{lines[-1]}" if lines else ""
        raise ConfigError(
            t(
                f"{path.name}{line} binds no list JUDGES: {type(error).__name__}: {error}",
                f"{path.name}{line} 没有给出列表 JUDGES：{type(error).__name__}: {error}",
            )
        ) from error
