"""What a data-parallel rank does with ZeRO's units in one step, event by event. The engine asks
`before_part`, `after_part`, `ReduceOrder` and `after_update` for what comes next, and carries it
out. `zero_events` puts the same together to a whole step, in which FORWARD and BACKWARD stand for
the model's own work: the estimator plays it, closed forms and tools read it.

*Weights*, stage 3: a part's units are unsharded before it computes, forward and again backward, and
those of the part that comes next travel meanwhile. Forward they are resharded after the part;
backward when the last gradient of the unit exists. *Gradients*: a unit's leave once all of them
exist, and one sum is under way at a time: it travels while the next unit's gradients are computed,
and is collected before the next one begins. Stage 1 has room for whole gradients, so only those of
the last micro-batch leave; stages 2 and 3 let every micro-batch's go. *Updated weights*: gathered
after the optimizer step where ranks keep all of them (stages 1 and 2).

When a gradient exists is autograd's affair. `ReduceOrder` is told, and answers with what follows;
`zero_events` draws up a whole step on the assumption that gradients appear in the reverse of the
forward order (tests hold that to the ledgers of real runs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from .units import Unit, names_used, units_of_part


class Do(Enum):
    """The kinds of events, each with what it is done to."""

    UNSHARD = auto()  # a unit: begin to gather its weights, unless they are here or on their way
    WAIT_FOR_UNSHARD = auto()  # a unit: go on when they are here
    FORWARD = auto()  # a part
    BACKWARD = auto()  # a part
    RESHARD = auto()  # a unit: drop the weights of other ranks' shards
    GRADIENT = auto()  # a parameter: its gradient exists, to be summed
    NO_GRADIENT = auto()  # a parameter that took no part in the loss: its share of the sum is 0
    REDUCE = auto()  # a unit: begin to sum its gradients, each shard to its owner
    COLLECT = auto()  # a unit: go on when the sum is here, and keep the shard
    GATHER = auto()  # a unit: begin to bring the updated weights to all ranks
    WAIT_FOR_GATHER = auto()


class Event(NamedTuple):
    """What is done, and the name of the unit, part or parameter to which it is done."""

    do: Do
    name: str


class Needs(NamedTuple):
    """A part of the model, the units whose weights it uses, and the parameters whose gradients are
    complete after its backward pass, in the order in which they appear.

    A block is a part and a unit. The two ends have units of their own; a tied embedding is a unit
    that both ends use, and stays gathered from the head's pass to the embedding's backward.
    """

    part: str
    units: tuple[str, ...]
    gradients: tuple[str, ...]


def reductions(stage: int, micro_batches: int) -> int:
    """How often a step sums a unit's gradients."""
    return micro_batches if stage >= 2 else 1


def gathers_after_update(stage: int) -> bool:
    """Whether updated weights are brought to all ranks at the end of a step."""
    return stage in (1, 2)


# -- what comes before and after -------------------------------------------------------------------


def before_part(needed: Iterable[str], ahead: Iterable[str]) -> tuple[Event, ...]:
    """Stage 3, before a part computes: `needed` are its units, `ahead` those of the next one."""
    needed = tuple(needed)
    return (
        *(Event(Do.UNSHARD, unit) for unit in needed),
        *(Event(Do.WAIT_FOR_UNSHARD, unit) for unit in needed),
        *(Event(Do.UNSHARD, unit) for unit in ahead),
    )


def after_part(needed: Iterable[str]) -> tuple[Event, ...]:
    """Stage 3, after the forward pass of a part. The last part's units, too, although its backward
    pass comes next and gathers them again."""
    return tuple(Event(Do.RESHARD, unit) for unit in needed)


def after_update(units: Iterable[str], stage: int) -> tuple[Event, ...]:
    """After the optimizer step."""
    units = tuple(units) if gathers_after_update(stage) else ()
    return tuple(Event(do, unit) for do in (Do.GATHER, Do.WAIT_FOR_GATHER) for unit in units)


class ReduceOrder:
    """Which gradients a rank still waits for, and whose sum is under way."""

    def __init__(self, units: Iterable[Unit], stage: int) -> None:
        self.units = {unit.name: frozenset(one.name for one in unit.slices) for unit in units}
        self.stage = stage
        self.unit_of = {name: unit for unit, names in self.units.items() for name in names}
        self.under_way: str | None = None
        self.missing = {unit: set(names) for unit, names in self.units.items()}
        self.left: set[str] = set()  # in this step

    def begin_step(self) -> None:
        """No gradient exists."""
        self.missing = {unit: set(names) for unit, names in self.units.items()}
        self.left.clear()

    def gradient(self, name: str, last_micro_batch: bool) -> list[Event]:
        """A gradient has appeared: what follows."""
        if self.stage == 1 and not last_micro_batch:
            return []
        unit, events = self.unit_of[name], [Event(Do.GRADIENT, name)]
        self.missing[unit].discard(name)
        if not self.missing[unit]:
            events += [Event(Do.RESHARD, unit)] if self.stage == 3 else []
            events += self._reduce(unit)
        return events

    def collect(self) -> list[Event]:
        """Wait for the sum that is under way, if any."""
        unit, self.under_way = self.under_way, None
        return [] if unit is None else [Event(Do.COLLECT, unit)]

    def finish(self) -> list[Event]:
        """The backward passes are over: units some of whose gradients never appeared leave all the
        same, because other ranks add theirs."""
        events = []
        for unit, missing in self.missing.items():
            begun = len(missing) < len(self.units[unit])
            if begun or unit not in self.left:
                events += [Event(Do.NO_GRADIENT, name) for name in sorted(missing)]
                events += self._reduce(unit)
        return events + self.collect()

    def _reduce(self, unit: str) -> list[Event]:
        events = self.collect()
        self.missing[unit] = set(self.units[unit])  # for the next micro-batch
        self.left.add(unit)
        self.under_way = unit
        return [*events, Event(Do.REDUCE, unit)]


# -- a whole step ----------------------------------------------------------------------------------


def needs_of_parts(
    parts: Sequence[str], units: Sequence[Unit], parameters: Sequence[str], tied: bool
) -> tuple[Needs, ...]:
    """`parts` of one pipeline stage and `parameters` of a rank, both in forward order. A parameter
    that two parts use has its gradient when the backward pass has come to the first of them."""
    used: set[str] = set()
    found = []
    for part in parts:
        own = [n for n in parameters if n.startswith(names_used(part, tied)) and n not in used]
        used.update(own)
        names = tuple(unit.name for unit in units_of_part(part, units, tied))
        found.append(Needs(part, names, tuple(reversed(own))))
    return tuple(found)


def forward_events(needs: Sequence[Needs], stage: int) -> Iterator[Event]:
    """Of one micro-batch through one pipeline stage."""
    for one, then in zip(needs, (*needs[1:], None), strict=True):
        if stage == 3:
            yield from before_part(one.units, then.units if then else ())
        yield Event(Do.FORWARD, one.part)
        if stage == 3:
            yield from after_part(one.units)


def backward_events(
    needs: Sequence[Needs], order: ReduceOrder, last_micro_batch: bool = True
) -> Iterator[Event]:
    """Of one micro-batch back through one pipeline stage."""
    for one, then in zip(reversed(needs), (*reversed(needs[:-1]), None), strict=True):
        if order.stage == 3:
            yield from before_part(one.units, then.units if then else ())
        yield Event(Do.BACKWARD, one.part)
        for name in one.gradients:
            yield from order.gradient(name, last_micro_batch)


def zero_events(
    needs: Sequence[Needs], units: Sequence[Unit], stage: int, micro_batches: int = 1
) -> tuple[Event, ...]:
    """A step of a rank with one pipeline stage. Units that are here, or on their way, are not
    unsharded again."""
    order = ReduceOrder(units, stage)
    events: list[Event] = []
    for micro in range(micro_batches):
        events += forward_events(needs, stage)
        events += backward_events(needs, order, micro == micro_batches - 1)
    events += order.finish()
    events += after_update(order.units, stage)
    return tuple(without_repeats(events))


def without_repeats(events: Iterable[Event]) -> Iterator[Event]:
    """The same, where nothing is unsharded that is unsharded."""
    here: set[str] = set()
    for event in events:
        if event.do is Do.UNSHARD:
            if event.name in here:
                continue
            here.add(event.name)
        elif event.do is Do.RESHARD:
            here.discard(event.name)
        yield event
