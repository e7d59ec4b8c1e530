"""The cells of the walk through a ZeRO step: a rectangle for each shard of each unit that a rank
holds, at its place on that rank.

What travels is one item from where it leaves to where it arrives, so that the page moves it: a
gathered shard waits behind its owner's, flies, stays while its unit computes, and fades; a part of
a gradient flies to the rank that sums it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from ..frame.scene import Item, circle, path, rect
from .colours import FILLS, OUTLINED
from .walk import UNITS, Cell, Moment, gradients, loans, moments, optimizer, parameters

# up to so many ranks every rank and every shard is drawn; above, the first three and the last
DRAWN_WHOLE = 4
LEFT, RIGHT, BETWEEN, ELLIPSIS = 96, 756, 22, 44
GRIDS, GRID, PITCH = 68, 72, 100
TERMS = {"parameters": parameters, "gradients": gradients, "optimizer": optimizer}
LOOKS: dict[str, tuple[str, dict[str, str | float]]] = {
    "old": (FILLS["parameters"], {}),
    "new": (FILLS["parameters"], {}),
    "gathered": (FILLS["gathered"], {}),
    "local": ("blue1", {"stroke": "blue3"}),
    "filling": (FILLS["buckets"], {}),
    "sum": (FILLS["gradients"], {}),
    "empty": ("paper", {"stroke": "blue3", "stroke-dasharray": "2 3"}),
    "held": (FILLS["optimizer"], {}),
    "host": (FILLS["offloaded"], OUTLINED),
}
MOVING = {"stroke": "fire", "stroke-width": 2}
GONE = {"opacity": 0}


class Place(NamedTuple):
    """Where a shard of a unit is drawn: on which rank, in which term's grid."""

    term: str
    rank: int
    unit: int
    shard: int


class Grid(NamedTuple):
    """The geometry for so many ranks: left edge of each rank that is drawn and its width; top of
    each shard within a grid and its height."""

    columns: dict[int, float]
    width: float
    rows: dict[int, float]
    height: float

    @property
    def each(self) -> float:
        """Width of a unit."""
        return self.width / len(UNITS)

    def corner(self, place: Place) -> tuple[float, float]:
        """Left and upper edge of a cell."""
        top = GRIDS + list(TERMS).index(place.term) * PITCH
        return (
            self.columns[place.rank] + place.unit * self.each + 1.5,
            top + self.rows[place.shard] + 1.5,
        )


@cache
def grid(ranks: int) -> Grid:
    """Of `ranks` ranks, four at most are drawn."""
    if ranks <= DRAWN_WHOLE:
        width = (RIGHT - LEFT + BETWEEN) / ranks - BETWEEN
        columns = {rank: LEFT + rank * (width + BETWEEN) for rank in range(ranks)}
        rows = {shard: shard * GRID / ranks for shard in range(ranks)}
        return Grid(columns, width, rows, GRID / ranks)
    width = (RIGHT - LEFT - ELLIPSIS + BETWEEN) / DRAWN_WHOLE - BETWEEN
    height = (GRID - 12) / DRAWN_WHOLE
    columns = {rank: LEFT + rank * (width + BETWEEN) for rank in range(3)}
    rows = {shard: shard * height for shard in range(3)}
    return Grid(
        columns | {ranks - 1: RIGHT - width}, width, rows | {ranks - 1: GRID - height}, height
    )


def cells(ranks: int, stage: str, moment: Moment, titles: dict[str, str]) -> Iterator[Item]:
    """Empty places, then what is there; `titles`: what each status means, for the tooltips."""
    drawn = grid(ranks)
    yield from (_slots(drawn, term, rank) for term in TERMS for rank in drawn.columns)
    every = [
        Place(term, rank, unit, shard)
        for term in TERMS
        for rank in drawn.columns
        for unit in range(len(UNITS))
        for shard in drawn.rows
    ]
    # what flies comes out from behind its owner's
    for place in every:
        if place.rank != place.shard:
            others = _of_others(drawn, stage, moment, place, titles)
            yield from (item | {"class": "fly"} for item in others)
    for place in every:
        if place.rank == place.shard:
            cell = TERMS[place.term](stage, moment, place.unit, True)
            yield from _drawn(drawn, _key(place), place, cell, titles)


def _slots(drawn: Grid, term: str, rank: int) -> Item:
    """All places of one rank's grid as one outline."""
    width, height = drawn.each - 3, drawn.height - 3
    corners = [
        drawn.corner(Place(term, rank, unit, shard))
        for unit in range(len(UNITS))
        for shard in drawn.rows
    ]
    outline = "".join(
        f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z" for x, y in corners
    )
    return path(f"slots-{term}{rank}", outline, fill="void")


def _key(place: Place, run: str = "") -> str:
    return f"{place.term}{place.rank}-{place.unit}-{place.shard}{run}"


def _owners(place: Place) -> Place:
    return place._replace(rank=place.shard)


def _of_others(
    drawn: Grid, stage: str, moment: Moment, place: Place, titles: dict[str, str]
) -> Iterator[Item]:
    cell = TERMS[place.term](stage, moment, place.unit, False)
    if place.term == "parameters" and stage in ("3", "offload"):
        yield from _borrowed(drawn, stage, moment, place, titles)
    elif place.term == "parameters" and moment.phase in ("update", "gather"):
        yield from _updated(drawn, moment, place, cell, titles)
    elif place.term == "gradients" and stage != "0":
        yield from _summed(drawn, stage, moment, place, titles)
    else:
        yield from _drawn(drawn, _key(place), place, cell, titles)


def _borrowed(
    drawn: Grid, stage: str, moment: Moment, place: Place, titles: dict[str, str]
) -> Iterator[Item]:
    """A shard that is gathered for each pass: it waits behind its owner's one moment before, and
    fades one moment after."""
    now = moments(stage).index(moment)
    for run, (first, last) in zip("fb", loans(stage, place.unit), strict=True):
        key = _key(place, run)
        if now == first - 1:
            yield _rect(drawn, key, _owners(place), Cell("gathered"))
        elif first <= now <= last:
            cell = parameters(stage, moment, place.unit, False)
            yield from _drawn(drawn, key, place, cell, titles)
        elif now == last + 1:
            yield _rect(drawn, key, place, Cell("gathered"), **GONE)


def _updated(
    drawn: Grid, moment: Moment, place: Place, cell: Cell, titles: dict[str, str]
) -> Iterator[Item]:
    """A shard that its owner has updated and sends to this rank, where the old one is."""
    if cell == Cell("new"):  # stage 0: everybody has updated everything
        yield from _drawn(drawn, _key(place), place, cell, titles)
        return
    yield from _drawn(drawn, _key(place), place, Cell("old"), titles)
    arrived = moment.phase == "gather"
    where = place if arrived else _owners(place)
    yield from _drawn(drawn, _key(place, "p"), where, Cell("new", moving=arrived), titles)


def _summed(
    drawn: Grid, stage: str, moment: Moment, place: Place, titles: dict[str, str]
) -> Iterator[Item]:
    """A part of this rank's gradient, which goes to the rank that sums it."""
    cell = gradients(stage, moment, place.unit, False)
    if cell.status in ("local", "filling"):
        yield from _drawn(drawn, _key(place), place, cell, titles)
        return
    if cell.status == "empty":
        yield from _drawn(drawn, _key(place, "e"), place, cell, titles)
    every = moments(stage)
    now = every.index(moment)
    before = gradients(stage, every[now - 1], place.unit, False) if now else cell
    if before.status in ("local", "filling"):
        yield _rect(drawn, _key(place), _owners(place), before._replace(moving=False))


def _drawn(
    drawn: Grid, key: str, place: Place, cell: Cell, titles: dict[str, str]
) -> Iterator[Item]:
    """The cell with its tooltip, and a dot on what is updated."""
    if cell.status == "absent":
        return
    words = titles["moving"] if cell.moving else "{}"
    yield _rect(drawn, key, place, cell, title=words.format(titles[cell.status]))
    if cell.status == "new":
        x, y = drawn.corner(place)
        yield circle(
            f"{key}-dot", x + (drawn.each - 3) / 2, y + (drawn.height - 3) / 2, 2.5, "paper"
        )


def _rect(drawn: Grid, key: str, place: Place, cell: Cell, **more: str | float) -> Item:
    x, y = drawn.corner(place)
    fill, outline = LOOKS[cell.status]
    outline = MOVING if cell.moving else outline
    return rect(key, x, y, drawn.each - 3, drawn.height - 3, fill, rx=2, **outline, **more)
