"""What an action does to a rank's memory: in bytes, and as formulas into which a shape puts its
numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...program.size import Shape, Size

Terms = dict[str, Size | int]


class Context(NamedTuple):
    """When an action, "F", "B" or "W", happens: in the first micro-batch, in the last; `rows`:
    while other micro-batches hold the tokens that all of them share."""

    kind: str
    first: bool = False
    last: bool = False
    rows: bool = False


class Moment(NamedTuple):
    """Inside an action: the highest so far above its beginning, of what, and what is there now, of
    what."""

    rise: int
    at_most: dict[str, int]
    level: int
    terms: dict[str, int]


@dataclass(frozen=True, slots=True)
class Change:
    """What an action adds to live bytes by term: `at_most` at its highest moment, `rise` in all,
    `after` when it is over.

    `saved_rise`, `copies_rise`: the most that it adds to what is saved; `saved`, `copies`: what it
    leaves saved. ZeRO sums a unit while the next one is computed: `first_sum` is the moment at
    which the action sends its first, and waits for the one before; `on_its_way` what it leaves
    behind (Sharded.on_its_way). `keeps_message`: the gradient that came stays for a later W.
    """

    rise: int
    at_most: dict[str, int]
    after: dict[str, int]
    saved_rise: int
    saved: int
    copies_rise: int
    copies: int
    first_sum: Moment | None = None
    on_its_way: tuple[int, int, int] = (0, 0, 0)
    keeps_message: bool = False


class Reached(NamedTuple):
    """Formulas of a Moment; the highest is one of `highest`."""

    highest: list[tuple[Size | int, Terms]]
    level: Size | int
    terms: Terms

    def at(self, shape: Shape) -> Moment:
        return Moment(*_highest(self.highest, shape), shape(self.level), shape.by_term(self.terms))


@dataclass(frozen=True, slots=True)
class ChangeFormulas:
    """Formulas of a Change."""

    highest: list[tuple[Size | int, Terms]]
    after: Terms
    saved_highest: list[Size | int]
    saved: Size | int
    copies_highest: list[Size | int]
    copies: Size | int
    first_sum: Reached | None
    on_its_way: tuple[Size | int, Size | int, Size | int]
    keeps_message: bool = False

    def at(self, shape: Shape) -> Change:
        """The change of this shape."""
        way = tuple(map(shape, self.on_its_way))
        return Change(
            *_highest(self.highest, shape),
            shape.by_term(self.after),
            shape.largest(self.saved_highest),
            shape(self.saved),
            shape.largest(self.copies_highest),
            shape(self.copies),
            self.first_sum and self.first_sum.at(shape),
            way,
            self.keeps_message,
        )


def _highest(rows: list[tuple[Size | int, Terms]], shape: Shape) -> tuple[int, dict[str, int]]:
    rises = [shape(rise) for rise, _ in rows]
    first = max(range(len(rows)), key=rises.__getitem__)
    return rises[first], shape.by_term(rows[first][1])
