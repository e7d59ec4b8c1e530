"""Arguments and results of a function that lives in another process: plain values as JSON and raw
bytes (frames.py), never a pickle.

What goes in may also hold named tuples, activation functions, and a generator of random numbers,
which arrives as a new one. What comes out is plain: whatever only looks like a number or a list, or
is equal to everything, is a `Foreign` here, which stays what it was when it was sent.
"""

from __future__ import annotations

import importlib
from collections import namedtuple
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..course.activations import ACTIVATIONS

PLAIN = (bool, int, float, str, type(None))
HALF = {"bfloat16": torch.bfloat16, "float16": torch.float16}  # travel as float32
HIDDEN = "lab_utils.course.checks"  # what a room cannot import
MOST_ITEMS = 100_000  # of something that is not a list, and can be gone through


class Axis(NamedTuple):
    """In a room, that of one of `size` ranks (inside/axis.py)."""

    rank: int
    size: int


class Foreign:
    """What came is no plain value: its repr, the number that float() made of it, the items that it
    has, as far as it has any."""

    def __init__(self, shown: str, number: float | None, items: list[Any] | None) -> None:
        self._shown, self._number, self._items = shown, number, items

    def __repr__(self) -> str:
        return self._shown

    def __float__(self) -> float:
        if self._number is None:
            raise TypeError(f"{self._shown:.80} is no number")
        return self._number

    def __iter__(self) -> Iterator[Any]:
        if self._items is None:
            raise TypeError(f"{self._shown:.80} cannot be gone through")
        return iter(self._items)


def packed(value: Any, tensors: list[Tensor]) -> Any:
    """`value` for JSON; its tensors are added to `tensors`, themselves unless they are of a half
    precision."""
    if type(value) in PLAIN:
        return value
    if type(value) in (Tensor, torch.nn.Parameter):
        return _packed_tensor(value, tensors)
    if isinstance(value, Tensor):  # of a class of its own, which may say of itself what it likes
        return {"foreign": [type(value).__name__, None, None]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        home = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"named": [home, list(value._fields), _items(value, tensors)]}
    for kind in (list, tuple):
        if isinstance(value, kind):
            return {kind.__name__: _items(value, tensors)}
    if isinstance(value, dict):
        return {"dict": [_items(pair, tensors) for pair in dict.items(value)]}
    if isinstance(value, float | str):  # of a class of its own: what it is as number or text
        return (float.__float__ if isinstance(value, float) else str.__str__)(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, torch.Generator):
        return {"seed": int(torch.randint(2**62, (), generator=value))}
    for name, act in ACTIVATIONS.items():
        if value is act:
            return {"activation": name}
    return {"foreign": [repr(value)[:500], *_as_far_as(value, tensors)]}


def unpacked(words: Any, tensors: list[Tensor], trusted: bool = False) -> Any:
    """The value. `trusted`: it comes from the grader, and may name what is to be made."""

    def items(some: list[Any]) -> list[Any]:
        return [unpacked(one, tensors, trusted) for one in some]

    if type(words) in PLAIN:
        return words
    [(kind, held)] = words.items()
    if kind in ("list", "tuple"):
        return items(held) if kind == "list" else tuple(items(held))
    if kind == "dict":
        return dict(items(pair) for pair in held)
    if kind == "tensor":
        at, half = held
        return tensors[at].to(HALF[half]) if half else tensors[at]
    if kind == "foreign":
        shown, number, some = held
        return Foreign(str(shown), number, some if some is None else items(some))
    if kind == "named":
        return _named(*held[:2])(*items(held[2])) if trusted else tuple(items(held[2]))
    if not trusted:
        return Foreign(kind, None, None)
    return torch.Generator().manual_seed(held) if kind == "seed" else ACTIVATIONS[held]


def foreign(words: Any) -> str | None:
    """The first value in what `packed` gave that is no plain one, as it was shown."""
    if not isinstance(words, list | dict):
        return None
    if isinstance(words, dict) and "foreign" in words:
        return words["foreign"][0]
    inside = words if isinstance(words, list) else words.values()
    return next((found for one in inside if (found := foreign(one))), None)


def numbers(value: Any) -> list[float] | None:
    """The numbers of a list, a tuple or a tensor of any shape; None if it holds anything else."""
    if isinstance(value, Tensor):
        return value.double().flatten().tolist()
    if not isinstance(value, list | tuple | Foreign):
        return None
    try:
        items = list(value)
        return None if any(isinstance(one, str) for one in items) else [*map(float, items)]
    except (TypeError, ValueError):
        return None


def _items(some: Any, tensors: list[Tensor]) -> list[Any]:
    return [packed(one, tensors) for one in some]


def _packed_tensor(value: Tensor, tensors: list[Tensor]) -> dict[str, Any]:
    half = str(value.dtype).removeprefix("torch.")
    tensors.append(value.float() if half in HALF else value)
    return {"tensor": [len(tensors) - 1, half if half in HALF else ""]}


def _as_far_as(value: Any, tensors: list[Tensor]) -> tuple[float | None, list[Any] | None]:
    """The number and the items of what is neither number nor list, as far as it has them."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    try:
        return number, _items(value, tensors) if len(value) <= MOST_ITEMS else None
    except TypeError:
        return number, None


def _named(home: str, fields: list[str]) -> Any:
    """The class of a named tuple; of one that a room cannot import, one like it."""
    module, _, name = home.partition(":")
    if module.startswith(HIDDEN):
        return namedtuple(name, fields)
    return getattr(importlib.import_module(module), name)
