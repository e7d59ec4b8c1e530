"""ZeRO's events of one step (layout/zero_events.py), played through for the walk: what a rank has
begun at each moment, and what it holds beside its own shards.

One micro-batch, and the units of the `tiny` model, of which each part of the model needs one.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...config import TrainConfig
from ...layout.parameters import parameter_shapes
from ...layout.units import zero_units
from ...layout.zero_events import Do, Event, Needs, needs_of_parts, zero_events

_TINY = TrainConfig.of("tiny")
_UNITS = zero_units(_TINY, 0, 0)
UNITS = tuple(unit.name for unit in _UNITS)
_OPS = {Do.UNSHARD: "all_gather", Do.REDUCE: "reduce_scatter", Do.GATHER: "all_gather"}


class Moment(NamedTuple):
    """`phase`: start, forward, backward, sum, update or gather; `unit`: the position of the unit
    that computes, -1 where none does."""

    phase: str
    unit: int = -1


class Played(NamedTuple):
    """`begun`: the collectives that begin at a moment, each with its unit. Of units, when the
    moment ends: those that are unsharded, or arriving; with gradients that are not summed yet
    (`leaving`: their sum has begun at this moment); and those with summed gradients."""

    begun: tuple[tuple[str, str], ...]
    unsharded: frozenset[str]
    arriving: frozenset[str]
    filling: frozenset[str]
    leaving: frozenset[str]
    summed: frozenset[str]


@cache
def played(stage: int) -> dict[Moment, Played]:
    """Every moment of a step at ZeRO's stages 1, 2 and 3. A moment of a pass ends when its unit has
    begun to compute; the sums end before the update."""
    needs = _needs()
    number = {one.part: UNITS.index(*one.units) for one in needs}
    found, playing = {}, _Playing()
    for event in zero_events(needs, _UNITS, stage):
        if event.do is Do.GATHER and Moment("sum") not in found:
            found[Moment("sum")], found[Moment("update")] = playing.end(), playing.end()
        playing.add(event)
        if event.do in (Do.FORWARD, Do.BACKWARD):
            unit = number[event.name]
            if event.do is Do.BACKWARD:
                playing.filling.add(UNITS[unit])
            found[Moment(event.do.name.lower(), unit)] = playing.end()
    last = [Moment("gather")] if Moment("sum") in found else [Moment("sum"), Moment("update")]
    return found | {moment: playing.end() for moment in last}


def _needs() -> tuple[Needs, ...]:
    blocks = [f"blocks.{layer}" for layer in range(_TINY.model.layers)]
    parts, names = ["embed", *blocks, "head_loss"], list(parameter_shapes(_TINY.model))
    return needs_of_parts(parts, _UNITS, names, _TINY.model.tied)


class _Playing:
    """What is so far."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, str]] = []
        self.unsharded, self.arriving = set[str](), set[str]()
        self.filling, self.leaving, self.summed = set[str](), set[str](), set[str]()

    def add(self, event: Event) -> None:
        do, name = event
        if do in _OPS:
            self.begun.append((_OPS[do], name))
        if do is Do.UNSHARD:
            self.unsharded.add(name)
            self.arriving.add(name)
        elif do is Do.WAIT_FOR_UNSHARD:
            self.arriving.discard(name)
        elif do is Do.RESHARD:
            self.unsharded.discard(name)
        elif do is Do.REDUCE:
            self.leaving.add(name)
        elif do is Do.COLLECT:
            self.filling.discard(name)
            self.summed.add(name)

    def end(self) -> Played:
        """Close a moment."""
        sets = (self.unsharded, self.arriving, self.filling, self.leaving, self.summed)
        closed = Played(tuple(self.begun), *map(frozenset, sets))
        self.begun.clear()
        self.leaving.clear()
        return closed
