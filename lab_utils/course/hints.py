"""Hints, one at a time: symptom, then principle, then place; the next one only after a new attempt.

A check shows the first hint of a criterion at the first failing attempt. Another attempt counts when the code has
changed: running the same cell again, or changing a comment, brings no new hint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from ..i18n import t

Text = tuple[str, str]                          # English, Chinese
Ladder = tuple[Text, Text, Text]                # symptom, principle, place

_attempts: dict[tuple[str, str], list[str]] = {}        # (exercise, criterion) → digests of the answers that failed on it


class Hint(NamedTuple):
    """One step of the ladder: `number` counts from 1 to `of`."""

    number: int
    of: int
    text: str


def next_hint(exercise: str, criterion: str, answer: Any, ladders: Mapping[str, Ladder]) -> Hint:
    """The hint for this attempt at `criterion`; a changed answer moves one step down the ladder, to its end at most."""
    attempts, digest = _attempts.setdefault((exercise, criterion), []), digest_of(answer)
    if digest not in attempts:
        attempts.append(digest)
    ladder = ladders[criterion]
    number = min(len(attempts), len(ladder))
    return Hint(number, len(ladder), t(*ladder[number - 1]))


def forget_attempts() -> None:
    """Begin again with the first hints."""
    _attempts.clear()


def digest_of(answer: Any) -> str:
    """A digest of what a function or class does: its bytecode and that of its own module's helpers that it names."""
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
            yield f"{name}={member!r}" if isinstance(member, bool | int | float | str) and not name.startswith("__") else name
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
