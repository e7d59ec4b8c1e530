"""An answer that is a function of plain values, called in a room with values from the grader."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .. import values
from ..values import packed, unpacked
from .axis import Axis
from .lab05 import Said
from .link import Link


def call(link: Link, answer: Callable, words: dict, given: list[Tensor]) -> Said:
    """What it returned; behind its tensors those that were passed in, as they are now."""
    args = [
        Axis(link, *one) if isinstance(one, values.Axis) else one
        for one in unpacked(words["args"], given, trusted=True)
    ]
    came, tensors = answer(*args), list[Tensor]()
    return {"done": packed(came, tensors)}, [*tensors, *given]
