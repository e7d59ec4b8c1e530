"""What a format and a loss scale make of recorded gradients. A scale that is a power of two moves
each power of two as a whole, so the shares are exact but for the topmost power of two, which counts
as held although its last numbers (in e4m3 those above 464, an eighth and more) overflow."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...formats import FORMATS, Format
from .recorded import gradient_sizes

NAMES = ("fp16", "bf16", "e5m2", "e4m3")
POWERS = tuple(range(-12, 30, 2))
STEP = 200  # of the recorded run
FATES = ("zero", "subnormal", "normal", "overflow")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Counts(NamedTuple):
    """Shares of the gradients that become zero, are held with fewer bits, with all, or overflow."""

    zero: float
    subnormal: float
    normal: float
    overflow: float


def fate(exponent: int, form: Format) -> str:
    """What becomes of the numbers from 2^exponent up to the next power of two. Below half of the
    smallest number they round to zero."""
    smallest = form.least_exponent - form.mantissa
    if exponent < smallest - 1:
        return "zero"
    if exponent < form.least_exponent:
        return "subnormal"
    return "normal" if exponent <= form.greatest_exponent else "overflow"


@lru_cache(maxsize=512)
def counts(what: str, name: str, power: int) -> Counts:
    """Of the gradients of `what` ("activations", "weights"), multiplied by 2^power."""
    sizes, form = gradient_sizes(what, STEP), FORMATS[name]
    found = dict.fromkeys(FATES, 0)
    for exponent, count in sizes.items():
        found[fate(exponent + power, form)] += count
    return Counts(*(found[one] / sum(sizes.values()) for one in FATES))


def power_words(power: int) -> str:
    """2¹²"""
    return "2" + str(power).translate(_RAISED)
