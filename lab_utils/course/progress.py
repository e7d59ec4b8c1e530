"""What a learner has done, kept in the learner's own folder: ids and figures, no language.

One JSON file for each exercise, and for each script that the course wrote. The folder is
$LAB_PROGRESS, else `progress` beside the `lessons` that is found from the working directory
upwards, else ./progress. An empty LAB_PROGRESS keeps nothing beyond this process. A file that
cannot be read counts as empty and is written anew; a folder that cannot be written costs the
learner the memory, never the verdict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Measured = Mapping[str, Any] | list[str]  # what a check measured; any JSON

_memory: dict[str, dict[str, Any]] = {}  # where nothing is to be kept, or can be


def folder() -> Path | None:
    """Where progress is kept; None: nowhere."""
    told = os.environ.get("LAB_PROGRESS")
    if told is not None:
        return Path(told) if told else None
    here = Path.cwd()
    home = next((place for place in (here, *here.parents) if (place / "lessons").is_dir()), here)
    return home / "progress"


def passed(exercise: str, measured: Measured, source: str | None) -> None:
    """Keep that `exercise` was passed, with what was measured and the source of the answer (None:
    not known)."""
    known = _read(exercise)
    _write(exercise, known | {"passed": True, "measured": measured, "source": source})


def was_passed(exercise: str) -> bool:
    """Whether a pass of `exercise` is kept."""
    return _read(exercise).get("passed") is True


def measured_in(exercise: str) -> Measured | None:
    """What the last pass of `exercise` measured; None if there is none."""
    return _read(exercise).get("measured")


def saved_answer(exercise: str) -> str | None:
    """The source of the answer that passed last; None if none did or its source was not known."""
    source = _read(exercise).get("source")
    return source if isinstance(source, str) else None


def attempts(exercise: str, criterion: str) -> list[str]:
    """Digests of the answers that failed `exercise` by `criterion`, oldest first."""
    kept = _attempts(_read(exercise)).get(criterion)
    return [digest for digest in kept if isinstance(digest, str)] if isinstance(kept, list) else []


def add_attempt(exercise: str, criterion: str, digest: str) -> None:
    """Keep another answer that failed by `criterion`; the same one twice counts once."""
    before = attempts(exercise, criterion)
    if digest not in before:
        known = _read(exercise)
        kept = _attempts(known) | {criterion: [*before, digest]}
        _write(exercise, known | {"attempts": kept})


def written(file: str) -> str | None:
    """The digest of what the course last wrote into the learner's `file`; None: nothing yet."""
    known = _read(file).get("written")
    return known if isinstance(known, str) else None


def keep_written(file: str, digest: str) -> None:
    """Keep the digest of what the course has just written into the learner's `file`."""
    _write(file, {"written": digest})


def forget() -> None:
    """Forget what this process keeps in memory; files stay."""
    _memory.clear()


def _attempts(known: dict[str, Any]) -> dict[str, Any]:
    kept = known.get("attempts")
    return kept if isinstance(kept, dict) else {}


def _read(exercise: str) -> dict[str, Any]:
    place = folder()
    if place is None or exercise in _memory:
        return _memory.get(exercise, {})
    try:
        known = json.loads((place / f"{exercise}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or damaged
        return {}
    return known if isinstance(known, dict) else {}


def _write(exercise: str, known: dict[str, Any]) -> None:
    place = folder()
    if place is None:
        _memory[exercise] = known
        return
    unfinished = place / f"{exercise}.{os.getpid()}.tmp"
    try:
        place.mkdir(parents=True, exist_ok=True)
        text = json.dumps(known, ensure_ascii=False, indent=1, sort_keys=True)
        unfinished.write_text(text + "\n", encoding="utf-8")
        unfinished.replace(place / f"{exercise}.json")
        _memory.pop(exercise, None)
    except OSError:
        _memory[exercise] = known
