"""Hints, one at a time: symptom, then principle, then place; the next one only after a new attempt.

They stand in `hints.md` beside a lab's checks: `# exercise, exercise` (whom the part is for),
`## criterion`, and three numbered items, each with an English line and, indented below it, a
Chinese one. A later part replaces what an earlier one said of the same exercise and criterion.

A check shows the first hint of a criterion at the first failing attempt. Another attempt counts
when the code has changed: running the same cell again, or changing a comment, brings no new hint.
Attempts are kept with the learner's progress, so that hints go on where they stood.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from ..i18n import t
from . import progress

Text = tuple[str, str]  # English, Chinese
Ladder = tuple[Text, Text, Text]  # symptom, principle, place


class Hint(NamedTuple):
    """One step of the ladder: `number` counts from 1 to `of`."""

    number: int
    of: int
    text: str


def next_hint(exercise: str, criterion: str, answer: Any, ladders: Mapping[str, Ladder]) -> Hint:
    """The hint for this attempt at `criterion`; a changed answer moves one step down the ladder, to
    its end at most."""
    progress.add_attempt(exercise, criterion, digest_of(answer)[:16])
    ladder = ladders[criterion]
    number = min(len(progress.attempts(exercise, criterion)), len(ladder))
    return Hint(number, len(ladder), t(*ladder[number - 1]))


@functools.cache
def read_hints(path: Path) -> dict[str, dict[str, Ladder]]:
    """The ladders in a file, by exercise and criterion. Raises ValueError for a part that is not
    three items in two languages."""
    found: dict[str, dict[str, Ladder]] = {}
    for part in re.split(r"^# ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        names, _, body = part.partition("\n")
        for section in re.split(r"^## ", body, flags=re.M)[1:]:
            criterion, _, items = section.partition("\n")
            texts = re.findall(r"^\d\. (.+)\n {3}(.+)$", items, flags=re.M)
            lines = [line for line in items.splitlines() if line.strip()]
            if (len(texts), len(lines)) != (3, 6):
                raise ValueError(f"{path.name}, {names}, {criterion}: three hints, each in both.")
            for name in names.split(", "):
                found.setdefault(name.strip(), {})[criterion.strip()] = tuple(texts)
    return found


def digest_of(answer: Any) -> str:
    """A digest of what a function or class does: its bytecode and that of its own module's helpers
    that it names."""
    return hashlib.sha256("\n".join(_parts(answer, set())).encode()).hexdigest()


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, FunctionType):
        yield repr((thing.__defaults__, thing.__kwdefaults__))
        yield from _code_parts(thing.__code__)
        for name in sorted(_names(thing.__code__)):
            helper = thing.__globals__.get(name)
            if isinstance(helper, FunctionType | type) and helper.__module__ == thing.__module__:
                yield from _parts(helper, seen)
            elif isinstance(helper, bool | int | float | str):
                yield f"{name}={helper!r}"
    elif isinstance(thing, type):
        for base in thing.__bases__:
            if base.__module__ == thing.__module__:
                yield from _parts(base, seen)
        for name, member in sorted(vars(thing).items()):
            yield (
                f"{name}={member!r}"
                if isinstance(member, bool | int | float | str) and not name.startswith("__")
                else name
            )
            yield from _parts(getattr(member, "__func__", getattr(member, "fget", member)), seen)


def _code_parts(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_parts(constant)
        else:
            yield repr(constant)


def _names(code: CodeType) -> set[str]:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return set(code.co_names).union(*map(_names, inner))
