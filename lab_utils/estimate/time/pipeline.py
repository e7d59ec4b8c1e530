"""Seconds of one pipelined step: a plan played through with given durations. The closed forms that
agree with it are in bubbles.py.

A bubble is the time in which a rank waits. Two conventions are in use and differ: Narayanan et al.
2021 (SC21, section 2.2) divide it by the *ideal* time, the rank's compute without any bubble, so
GPipe and 1F1B waste (p−1)/m and interleaved (p−1)/(v·m); over the *total* time of the step the
former is (p−1)/(m+p−1). Every name here says which.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ...i18n import t
from ...layout.schedule import Action, Plan, splits_backward
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
    """A plan played through. `starts[r][i]` and `ends[r][i]` are those of `plan[r][i]`;
    `busy_seconds[r]` is rank r's compute."""

    plan: Plan
    starts: tuple[tuple[float, ...], ...]
    ends: tuple[tuple[float, ...], ...]
    busy_seconds: tuple[float, ...]

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All actions, rank by rank, each rank's in the order of time."""
        return tuple(
            Span(rank, *span)
            for rank, lane in enumerate(zip(self.plan, self.starts, self.ends, strict=True))
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
        return sum(self.bubble_seconds) / (len(self.plan) * self.seconds)


def simulate(
    plan: Plan,
    forward_seconds: Durations,
    backward_seconds: Durations,
    weight_seconds: Durations = 0,
    message_seconds: float = 0,
) -> Timeline:
    """Play `plan` through: each action starts when its rank is free and its message is there.

    Durations are of one micro-batch on one virtual stage: a number, or one per virtual stage.
    `backward_seconds` is the gradient of the input and `weight_seconds` that of the weights; a plan
    without W does both in its B, so the same call compares all schedules (leave `weight_seconds` at
    0 where the backward is one number). A message between two ranks is on its way for
    `message_seconds` while both compute on, and those of one kind from one rank to another follow
    each other on the wire. The plan is one that passes `check_schedule`. Raises ScheduleError for
    ranks that wait for ever, ValueError for a wrong number of durations.
    """
    work = _tables(plan, forward_seconds, backward_seconds, weight_seconds, message_seconds)
    starts, ends = ([[] for _ in plan] for _ in range(2))
    clock, busy = ([0.0] * len(plan) for _ in range(2))
    wire_free = {kind: [0.0] * len(plan) for kind in work}  # per sending rank
    # first come, first served: half as many visits as a stack
    able, waiting = deque(range(len(plan))), set()
    while able:
        rank = able.popleft()
        actions, rank_starts, rank_ends, now, load = (
            plan[rank],
            starts[rank],
            ends[rank],
            clock[rank],
            busy[rank],
        )
        for i in range(len(rank_ends), len(actions)):
            kind, micro, stage = actions[i]
            seconds, inputs, outputs, readers, on_wire = work[kind]
            there = inputs[stage][micro]
            if there is None:
                waiting.add(rank)
                break
            start = there if there > now else now
            now = start + seconds[stage]
            load += seconds[stage]
            rank_starts.append(start)
            rank_ends.append(now)
            if on_wire[stage]:
                wire_free[kind][rank] = outputs[stage][micro] = (
                    max(now, wire_free[kind][rank]) + on_wire[stage]
                )
            else:
                outputs[stage][micro] = now
            if readers[stage] in waiting:
                waiting.remove(readers[stage])
                able.append(readers[stage])
        clock[rank], busy[rank] = now, load
    if waiting:
        check_schedule(plan)
    return Timeline(plan, tuple(map(tuple, starts)), tuple(map(tuple, ends)), tuple(busy))


class _Work(NamedTuple):
    """All that one kind of action needs to know; every list has one entry per virtual stage."""

    seconds: list[float]
    # per micro-batch: when what it starts from is there; None: not yet
    inputs: list[list[float | None]]
    # per micro-batch: when what it makes is there for the next action
    outputs: list[list[float | None]]
    readers: list[int]  # the rank that reads it, −1 for none
    # how long the message takes, 0 where none leaves the rank
    on_wire: list[float]


def _tables(
    plan: Plan, forward: Durations, backward: Durations, weight: Durations, message_seconds: float
) -> dict[str, _Work]:
    ranks, stages = len(plan), 1 + max(action.stage for actions in plan for action in actions)
    micro_batches = 1 + max(action.micro for actions in plan for action in actions)
    f, b, w = (_per_stage(seconds, stages) for seconds in (forward, backward, weight))
    if not splits_backward(plan):
        b = [whole + part for whole, part in zip(b, w, strict=True)]
    # one row more than there are stages: the first stage's forward waits for nothing, the last
    # one's backward for its forward
    forwards: list[list[float | None]] = [
        [0.0] * micro_batches,
        *([None] * micro_batches for _ in range(stages)),
    ]
    backwards: list[list[float | None]] = [
        *([None] * micro_batches for _ in range(stages)),
        forwards[stages],
    ]
    at_once, nowhere = [[0.0] * micro_batches] * stages, [[None] * micro_batches] * stages
    after, before = ([(stage + step) % ranks for stage in range(stages)] for step in (1, -1))
    on_wire = [message_seconds if ranks > 1 else 0] * (stages - 1)
    return {
        "F": _Work(f, forwards[:-1], forwards[1:], after, [*on_wire, 0]),
        "B": _Work(b, backwards[1:], backwards[:-1], before, [0, *on_wire]),
        "W": _Work(w, at_once, nowhere, [-1] * stages, [0] * stages),
    }


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
