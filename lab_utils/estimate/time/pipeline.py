"""Seconds of one pipelined step: a schedule's events (layout/pipeline_events.py) played through
with given durations. The closed forms that agree with it are in bubbles.py.

A bubble is the time in which a rank waits. Two conventions are in use and differ: Narayanan et al.
2021 (SC21, section 2.2) divide it by the *ideal* time, the rank's compute without any bubble, so
GPipe and 1F1B waste (p−1)/m and interleaved (p−1)/(v·m); over the *total* time of the step the
former is (p−1)/(m+p−1). Every name here says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from ...i18n import t
from ...layout.pipeline_events import Await, Channel, Event, Run, Send, events_of_schedule
from ...layout.schedule import Action, PipelineSchedule, splits_backward
from ...layout.schedule_check import check_schedule

# seconds: the same for all virtual stages, or one per virtual stage
Durations = float | Sequence[float]


class Span(NamedTuple):
    """One action on the clock, in seconds from the start of the step."""

    rank: int
    action: Action
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A schedule played through. `starts[r][i]` and `ends[r][i]` are those of `schedule[r][i]`;
    `busy_seconds[r]` is rank r's compute."""

    schedule: PipelineSchedule
    starts: tuple[tuple[float, ...], ...]
    ends: tuple[tuple[float, ...], ...]
    busy_seconds: tuple[float, ...]

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All actions, rank by rank, each rank's in the order of time."""
        return tuple(
            Span(rank, *span)
            for rank, lane in enumerate(zip(self.schedule, self.starts, self.ends, strict=True))
            for span in zip(*lane, strict=True)
        )

    @cached_property
    def seconds(self) -> float:
        """From the first start to the last end, over all ranks."""
        return max(ends[-1] for ends in self.ends)

    @cached_property
    def bubble_seconds(self) -> tuple[float, ...]:
        """Per rank: the rest of the step, in which it waits for messages, or for the last rank to
        end."""
        return tuple(self.seconds - busy for busy in self.busy_seconds)

    @property
    def bubble_over_ideal(self) -> float:
        """All ranks' bubbles over all ranks' compute (SC21's convention); above 1 when the pipeline
        mostly waits."""
        return sum(self.bubble_seconds) / sum(self.busy_seconds)

    @property
    def bubble_over_total(self) -> float:
        """The share of all ranks' time that is bubble, 0 to 1."""
        return sum(self.bubble_seconds) / (len(self.schedule) * self.seconds)


def simulate(
    schedule: PipelineSchedule,
    forward_seconds: Durations,
    backward_seconds: Durations,
    weight_seconds: Durations = 0,
    message_seconds: float = 0,
) -> Timeline:
    """Play `schedule` through: each action starts when its rank is free and its message is there.

    Durations are of one micro-batch on one virtual stage: a number, or one per virtual stage.
    `backward_seconds` is the gradient of the input and `weight_seconds` that of the weights; a
    schedule without W does both in its B, so the same call compares all schedules (leave
    `weight_seconds` at 0 where the backward is one number). A message between two ranks is on its
    way for `message_seconds` while both compute on, and those of one kind from one rank to another
    follow each other on the wire. The schedule is one that passes `check_schedule`. Raises
    ScheduleError for ranks that wait for ever, ValueError for a wrong number of durations.
    """
    stages = 1 + max(action.stage for actions in schedule for action in actions)
    durations = (forward_seconds, backward_seconds, weight_seconds)
    f, b, w = (_per_stage(seconds, stages) for seconds in durations)
    if not splits_backward(schedule):
        b = [whole + part for whole, part in zip(b, w, strict=True)]
    playing = _Playing(
        schedule, {"F": f, "B": b, "W": w}, message_seconds if len(schedule) > 1 else 0
    )
    # first come, first served: half as many visits as a stack
    able = deque(range(len(schedule)))
    while able:
        able.extend(playing.go_on(able.popleft()))
    if playing.waiting:
        check_schedule(schedule)
    starts, ends = (tuple(map(tuple, lanes)) for lanes in (playing.starts, playing.ends))
    return Timeline(schedule, starts, ends, tuple(playing.busy))


class _Work(NamedTuple):
    """An action with its messages: whether it waits for one, by which channel what it makes leaves,
    and for which action."""

    action: Action
    waits: bool
    channel: Channel | None
    needed_by: Action | None


@lru_cache(maxsize=8)
def _works(schedule: PipelineSchedule) -> tuple[tuple[_Work, ...], ...]:
    """The events of every rank, but for those that take no time: beginning to receive, and letting
    go of what was sent."""
    return tuple(tuple(_works_of_rank(events)) for events in events_of_schedule(schedule))


def _works_of_rank(events: Iterable[Event]) -> Iterator[_Work]:
    timed = [event for event in events if isinstance(event, Await | Run | Send)]
    for before, event, after in zip((None, *timed), timed, (*timed[1:], None), strict=False):
        if isinstance(event, Run):
            sends = isinstance(after, Send)
            yield _Work(
                event.action,
                isinstance(before, Await),
                after.channel if sends else None,
                after.needed_by if sends else None,
            )


class _Playing:
    """Ranks on their way through their works; every list has an entry per rank."""

    def __init__(
        self,
        schedule: PipelineSchedule,
        seconds: Mapping[str, Sequence[float]],
        message_seconds: float,
    ) -> None:
        self.works, self.seconds, self.message_seconds = _works(schedule), seconds, message_seconds
        self.starts, self.ends = ([[] for _ in schedule] for _ in range(2))
        self.clock, self.busy = ([0.0] * len(schedule) for _ in range(2))
        # when the last message of each channel is through
        self.wire_free = [[0.0] * len(Channel) for _ in schedule]
        self.there: dict[Action, float] = {}  # when what an action waits for is there
        self.waiting: dict[Action, int] = {}  # which rank waits at it

    def go_on(self, rank: int) -> list[int]:
        """Play a rank until it has to wait; returns the ranks that waited for what it has sent."""
        starts, ends, free = self.starts[rank], self.ends[rank], self.wire_free[rank]
        there, now, load, woken = self.there, self.clock[rank], self.busy[rank], []
        for action, waits, channel, needed_by in self.works[rank][len(ends) :]:
            if waits:
                if action not in there:
                    self.waiting[action] = rank
                    break
                now = max(now, there[action])
            starts.append(now)
            seconds = self.seconds[action.kind][action.stage]
            now += seconds
            load += seconds
            ends.append(now)
            if needed_by is not None:
                free[channel] = there[needed_by] = max(now, free[channel]) + self.message_seconds
                if needed_by in self.waiting:
                    woken.append(self.waiting.pop(needed_by))
        self.clock[rank], self.busy[rank] = now, load
        return woken


def _per_stage(seconds: Durations, stages: int) -> list[float]:
    given = list(seconds) if isinstance(seconds, Iterable) else [seconds] * stages
    if len(given) != stages:
        raise ValueError(
            t(
                f"{len(given)} durations were given for {stages} virtual stages: give one number,"
                " or one for each.",
                f"给了 {len(given)} 个时长，而虚拟阶段有 {stages} 个："
                f"请只给一个数，或每个阶段给一个。",
            )
        )
    return given
