"""Numbers as a learner reads them: three significant digits and the unit that fits. GB is 10⁹
bytes.

Number and unit are joined by a no-break space, so that no line ends between them.
"""

from __future__ import annotations

import math

NO_BREAK = "\u00a0"
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def digits(value: float, significant: int = 3) -> str:
    """So many significant digits without an exponent: 0.0123, 1.23, 12.3, 123, 1,235."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{significant - 1}e}")  # 9.996 is 10.0, not 10.00
    return f"{value:,.{max(0, significant - 1 - math.floor(math.log10(abs(rounded))))}f}"


def seconds(value: float) -> str:
    """A duration: 1.23 s, 45.6 ms, 7.89 µs. Less than a nanosecond is what rounding leaves of
    nothing: 0 s."""
    return _with_unit(value if abs(value) >= 1e-9 else 0, _SECONDS)


def nbytes(value: float) -> str:
    """An amount of data in decimal units: 871 MB, 1.5 GB."""
    return _with_unit(value, _BYTES)


def percent(value: float) -> str:
    """A share of 1: 97 %, 0.34 %, and 100 % only for what is really 1."""
    shown = 100 * value
    if shown < 1:
        return f"{digits(shown, 2)}{NO_BREAK}%"
    return (
        f"{shown:.0f}{NO_BREAK}%"
        if shown < 99 or value == 1
        else f"{math.floor(10 * shown) / 10:.1f}{NO_BREAK}%"
    )


def time_ticks(end_seconds: float, most: int = 6) -> list[tuple[float, str]]:
    """At most `most` round ticks from 0 to the end, each as (share of the end, duration)."""
    scale, unit = _unit(end_seconds, _SECONDS)
    end = end_seconds / scale
    magnitude = 10 ** math.floor(math.log10(end / most))
    step = next(m * magnitude for m in (1, 2, 5, 10, 20) if end / (m * magnitude) < most)
    return [
        (i * step / end, f"{i * step:.4g}{NO_BREAK}{unit}")
        for i in range(math.floor(end / step) + 1)
    ]


def _unit(value: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    rounded = float(f"{value:.2e}")
    return next(((scale, unit) for scale, unit in units if rounded >= scale), units[-1])


def _with_unit(value: float, units: tuple[tuple[float, str], ...]) -> str:
    if value == 0:
        return f"0{NO_BREAK}{units[-1][1] if units is _BYTES else 's'}"
    scale, unit = _unit(value, units)
    return f"{digits(value / scale)}{NO_BREAK}{unit}"
