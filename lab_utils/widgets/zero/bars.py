"""What the panels of bytes and of traffic share: three figures, and below them a row for each stage
with its bar, cut into segments, and marks where real runs put their ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ...i18n import t
from ...text import columns
from ..frame.scene import Item, path, rect, text
from ..frame.units import nbytes

WIDTH = 760
LEFT, LENGTH, TOTAL = 118, 500, 628  # the bars, and the column of totals


class Segment(NamedTuple):
    """Bytes of one kind, its colour, and its names, the longest first."""

    name: str
    fill: str
    amount: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Rows:
    """Where the rows stand: the first one's upper edge, their distance, the bars' height. `scale`:
    bytes at the end of the axis; `lines`: x of what crosses all bars."""

    top: float
    pitch: float
    bar: float
    scale: float
    lines: tuple[float, ...] = ()

    def x(self, amount: float) -> float:
        """Where so many bytes end, at most at the end of the axis."""
        return LEFT + min(1.0, amount / self.scale) * LENGTH

    def y(self, row: int) -> float:
        """Upper edge of a row's bar."""
        return self.top + row * self.pitch

    def chosen(self, row: int) -> Item:
        """The frame around the row that is chosen."""
        return rect(
            "chosen", 0, self.y(row) - 4, WIDTH, self.pitch - 2, "void", rx=4, stroke="soft"
        )

    def stack(self, key: str, row: int, segments: Sequence[Segment], lang: str) -> Iterator[Item]:
        """A bar; where it is longer than the axis, a mark that says so."""
        before, y = 0, self.y(row)
        for name, fill, amount, words in segments:
            start, end = self.x(before), self.x(before + amount)
            before += amount
            if end - start < 0.05:
                continue
            gap = 1.0 if end - start > 3 else 0.0
            said = words[0] + t(": ", "：", lang) + nbytes(amount)
            yield rect(f"{key}{name}", start, y, end - start - gap, self.bar, fill, title=said)
            yield from self._label(f"{key}{name}-name", start, end - gap, y, (words, fill))
        if before > self.scale:
            cut, half = LEFT + LENGTH - 14, self.bar / 2 + 2
            zigzag = f"M{cut} {y + self.bar + 2}l6 -{half}l-4 0l6 -{half}"
            yield path(f"{key}cut", zigzag, "paper", width=3)

    def _label(
        self, key: str, start: float, end: float, y: float, name: tuple[tuple[str, ...], str]
    ) -> Iterator[Item]:
        """The longest name that fits between start and end beside the lines that cross there; or
        nothing."""
        edges = [start, *(x for x in self.lines if start < x < end), end]
        room, middle = max((b - a, (a + b) / 2) for a, b in pairwise(edges))
        fitting = [words for words in name[0] if room > 7.3 * columns(words) + 4]
        if fitting:
            y, ink = y + self.bar / 2 + 4.5, f"on-{name[1]}"
            yield text(key, middle, y, fitting[0], ink, 12, "middle", **{"pointer-events": "none"})

    def ticks(self, key: str, row: int, measured: Mapping[str, int]) -> Iterator[Item]:
        """A mark under the end of each segment, where the measured bytes put it."""
        before, y = 0, self.y(row) + self.bar
        for name, amount in measured.items():
            before += amount
            if amount:
                x = LEFT + before / self.scale * LENGTH
                yield path(f"{key}tick-{name}", f"M{x - 4:.1f} {y + 6}h8l-4 -6z", fill="ink")


def figures(said: Sequence[tuple[str, str, str]], middle_size: int = 26) -> Iterator[Item]:
    """Three figures side by side: name, value, detail."""
    for i, (name, value, detail) in enumerate(said):
        size = middle_size if i == 1 else 26
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, size=size, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)
