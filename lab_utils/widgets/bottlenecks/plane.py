"""The plane of a roofline: both axes logarithmic, a slope and a flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from typing import NamedTuple

from ..frame.scene import Item, line, path, text

LEFT, TOP, WIDTH, HEIGHT = 74, 34, 560, 250


class Plane(NamedTuple):
    """Bounds of the axes: FLOPs per byte, FLOP/s."""

    least_x: float
    most_x: float
    least_y: float
    most_y: float

    def x(self, intensity: float) -> float:
        """Units from the panel's left edge."""
        return LEFT + WIDTH * _share(intensity, self.least_x, self.most_x)

    def y(self, rate: float) -> float:
        """Units from the panel's top."""
        return TOP + HEIGHT * (1 - _share(rate, self.least_y, self.most_y))

    def axes(
        self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]], words: str
    ) -> list[Item]:
        """Lines and numbers; `words` name the horizontal axis."""
        return list(self._axes(xs, ys, words))

    def _axes(
        self, xs: Sequence[tuple[float, str]], ys: Sequence[tuple[float, str]], words: str
    ) -> Iterator[Item]:
        base = TOP + HEIGHT
        yield text("y-words", 0, 14, "↑ FLOP/s", "soft", 12)
        for i, (at, name) in enumerate(xs):
            yield line(f"x{i}", self.x(at), TOP, self.x(at), base)
            yield text(f"x-name{i}", self.x(at), base + 17, name, "soft", 12, "middle")
        for i, (at, name) in enumerate(ys):
            yield line(f"y{i}", LEFT, self.y(at), LEFT + WIDTH, self.y(at))
            yield text(f"y-name{i}", LEFT - 8, self.y(at) + 4, name, "soft", 12, "end")
        yield text("x-words", LEFT + WIDTH, base + 36, words, "soft", 12, "end")

    def roof(self, key: str, flops_per_second: float, bytes_per_second: float, ink: str) -> Item:
        """The slope from the left edge or the floor up to the ridge, then the flat."""
        corner = flops_per_second / bytes_per_second
        start = max(self.least_x, self.least_y / bytes_per_second)
        return path(
            key,
            f"M{self.x(start):.1f} {self.y(start * bytes_per_second):.1f}"
            f"L{self.x(corner):.1f} {self.y(flops_per_second):.1f}H{LEFT + WIDTH}",
            ink,
            width=2,
        )


def _share(value: float, least: float, most: float) -> float:
    share = log10(max(value, least) / least) / log10(most / least)
    return min(1.0, share)
