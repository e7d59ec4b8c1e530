"""What a pipeline rank does in one step, event by event: the actions of its schedule with the
messages between ranks. The engine executes these events, the estimator plays them in bytes and in
seconds.

A rank goes down its list. Before each action it begins to receive what the *next* one needs, so
that the message may come while this one computes; then it waits for its own message, runs, and
sends on what it has made. A buffer that was sent has to stay as it is until its reader has it.
Asking the send is of no use: it may only be through once the reader comes to it, and the reader may
be waiting for us. But a message that has come tells how far its sender was. A rank does its actions
in order, so it had begun every action before the one that made the message, and with that taken
what those needed from us: these buffers are released, and at the end of the step all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from ..config import Schedule
from .schedule import Action, PipelineSchedule, rank_schedule


class Channel(IntEnum):
    """Messages of one channel arrive in the order in which they were sent; the two directions are
    never mistaken for one another."""

    ACTIVATIONS = 0
    GRADIENTS = 1


@dataclass(frozen=True, slots=True)
class Receive:
    """Begin to receive what `action` needs: room is made for it. `boundary`: which one between two
    stages it crosses, by the number of the later stage."""

    action: Action
    source: int
    channel: Channel
    boundary: int


@dataclass(frozen=True, slots=True)
class Await:
    """Go on when what `action` needs is here."""

    action: Action


@dataclass(frozen=True, slots=True)
class Run:
    """Compute. What came for `action` is used up when it ends."""

    action: Action


@dataclass(frozen=True, slots=True)
class Send:
    """What `action` has made begins to travel to rank `to`, whose action `needed_by` reads it."""

    action: Action
    to: int
    channel: Channel
    needed_by: Action


@dataclass(frozen=True, slots=True)
class Release:
    """What `action` sent has been received: its buffer may go."""

    action: Action


Event = Receive | Await | Run | Send | Release

CHANNELS = {"F": Channel.ACTIVATIONS, "B": Channel.GRADIENTS}


def message_for(action: Action, last_stage: int) -> Action | None:
    """The action of a neighbouring stage whose message `action` needs, if any."""
    kind, micro, stage = action
    if kind == "F" and stage > 0:
        return Action("F", micro, stage - 1)
    if kind == "B" and stage < last_stage:
        return Action("B", micro, stage + 1)
    return None


def message_from(action: Action, last_stage: int) -> Action | None:
    """The action of a neighbouring stage that needs what `action` makes, if any."""
    kind, micro, stage = action
    if kind == "F" and stage < last_stage:
        return Action("F", micro, stage + 1)
    if kind == "B" and stage > 0:
        return Action("B", micro, stage - 1)
    return None


@lru_cache(maxsize=8)
def events_of_schedule(schedule: PipelineSchedule) -> tuple[tuple[Event, ...], ...]:
    """The events of every rank in one step of a schedule that passes `check_schedule`."""
    last_stage = max(action.stage for actions in schedule for action in actions)
    places = dict(enumerate(map(_places, schedule)))
    return tuple(tuple(_events(actions, places, last_stage, len(schedule))) for actions in schedule)


def pipeline_events(schedule: PipelineSchedule, rank: int) -> tuple[Event, ...]:
    """The events of one rank."""
    return events_of_schedule(schedule)[rank]


@lru_cache(maxsize=512)
def events_of_rank(
    name: Schedule, rank: int, ranks: int, micro_batches: int, virtual_stages: int = 1
) -> tuple[Event, ...]:
    """The same of a named schedule, unchecked; looks at the rank and its two neighbours only."""

    def actions(r: int) -> tuple[Action, ...]:
        return rank_schedule(name, r, ranks, micro_batches, virtual_stages)

    near = {r % ranks: _places(actions(r % ranks)) for r in (rank - 1, rank + 1)}
    return tuple(_events(actions(rank), near, ranks * virtual_stages - 1, ranks))


def _places(actions: Iterable[Action]) -> dict[Action, int]:
    return {action: i for i, action in enumerate(actions)}


def _events(
    actions: Sequence[Action],
    places: Mapping[int, Mapping[Action, int]],
    last_stage: int,
    ranks: int,
) -> Iterator[Event]:
    """`places`: of the actions of both neighbours in their lists."""
    # per reader and channel, in order: (which of the reader's actions needs it, what made it)
    sent: dict[tuple[int, str], deque[tuple[int, Action]]] = defaultdict(deque)
    made_by = [message_for(action, last_stage) for action in actions]
    first, *ahead = [
        None
        if by is None
        else Receive(action, by.stage % ranks, CHANNELS[by.kind], max(action.stage, by.stage))
        for action, by in zip(actions, made_by, strict=True)
    ]
    if first is not None:
        yield first
    for action, by, receive in zip(actions, made_by, (*ahead, None), strict=True):
        if receive is not None:
            yield receive
        if by is not None:
            yield Await(action)
            sender = by.stage % ranks
            reached = places[sender][by]
            for kind in CHANNELS:
                waiting = sent[sender, kind]
                while waiting and waiting[0][0] <= reached:
                    yield Release(waiting.popleft()[1])
        yield Run(action)
        if (needed_by := message_from(action, last_stage)) is not None:
            to = needed_by.stage % ranks
            sent[to, action.kind].append((places[to][needed_by], action))
            yield Send(action, to, CHANNELS[action.kind], needed_by)
    for waiting in sent.values():
        for _, action in waiting:
            yield Release(action)
