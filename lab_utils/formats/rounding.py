"""A number put into a format: to the nearest (ties to even), or up and down by chance so that it
is right on average."""

from __future__ import annotations

from math import copysign, floor, inf, isfinite, isnan, nan
from typing import Literal, NamedTuple

from .format import Format

Happened = Literal["exact", "rounded", "subnormal", "underflow", "overflow", "saturated", "nan"]


class Rounded(NamedTuple):
    """What became of a number. "subnormal": rounded where the mantissa has fewer bits than
    elsewhere; "underflow": to zero; "overflow": to infinity, or NaN where there is none;
    "saturated": to the largest finite number."""

    value: float
    happened: Happened

    @property
    def lost(self) -> bool:
        """Nothing of the number's size is left."""
        return self.happened in ("underflow", "overflow", "saturated", "nan")


def round_to_nearest(x: float, form: Format, saturate: bool = False) -> Rounded:
    """The number of the format that is nearest to x; of two the one whose last bit is 0 (IEEE 754,
    section 4.3.1). What rounds beyond the largest overflows; with `saturate` it becomes the
    largest instead, and so does infinity: in e4m3 that is what torch 2.13 does on a CPU."""
    if isnan(x):
        return Rounded(nan if form.top != "numbers" else form.largest, "nan")
    if abs(x) == inf:
        return _beyond(x, form, saturate)
    spacing = form.spacing(x)
    # a power of two divides exactly, and round() takes ties to even
    value = copysign(round(x / spacing) * spacing, x)
    if abs(value) > form.largest:
        return _beyond(x, form, saturate)
    return Rounded(value, _what(x, value, form))


def round_stochastically(x: float, chance: float, form: Format) -> Rounded:
    """One of the two neighbours of x: the farther from zero if `chance`, drawn evenly from 0 to 1,
    is below the share of the gap that x has gone. Then the mean is x (Gupta et al. 2015,
    section 3)."""
    if not isfinite(x):
        return round_to_nearest(x, form)
    spacing = form.spacing(x)
    steps = abs(x) / spacing
    below = floor(steps)
    value = copysign((below + (chance < steps - below)) * spacing, x)
    if abs(value) > form.largest:
        return _beyond(x, form, saturate=False)
    return Rounded(value, _what(x, value, form))


def _what(x: float, value: float, form: Format) -> Happened:
    if value == x:
        return "exact"
    if value == 0:
        return "underflow"
    return "subnormal" if abs(x) < form.smallest_normal else "rounded"


def _beyond(x: float, form: Format, saturate: bool) -> Rounded:
    sign = -1.0 if x < 0 else 1.0
    if saturate or form.top == "numbers":
        return Rounded(sign * form.largest, "saturated")
    if form.top == "nan":
        return Rounded(nan, "overflow")
    return Rounded(sign * inf, "exact" if abs(x) == inf else "overflow")
