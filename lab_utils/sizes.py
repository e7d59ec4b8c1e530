"""Amounts of memory as a person reads them: three digits, decimal units (1 GB is 10⁹ bytes)."""

from __future__ import annotations

from collections.abc import Mapping

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def size(nbytes: float) -> str:
    """One amount in the unit that fits it: 947,712 → "948 kB"."""
    scale, unit = _scale(nbytes)
    return f"{_digits(nbytes / scale)} {unit}"


def in_one_scale(nbytes: Mapping[str, float]) -> tuple[str, dict[str, str]]:
    """The unit that fits the largest, and every amount in it: to be compared at a glance."""
    scale, unit = _scale(max(nbytes.values(), default=0))
    return unit, {name: _digits(value / scale) for name, value in nbytes.items()}


def _scale(nbytes: float) -> tuple[float, str]:
    return next((one for one in _UNITS if abs(nbytes) >= 0.9995 * one[0]), _UNITS[-1])


def _digits(value: float) -> str:
    """At least three digits, or what is left of them at a thousandth."""
    places = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{places}f}" if not 0 < abs(value) < 0.095 else f"{value:.2g}"
