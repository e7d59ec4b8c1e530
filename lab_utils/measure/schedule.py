"""A pipeline schedule on real ranks, on the clock: the engine's own executor carries it out, with
stages that wait instead of computing.

Ranks that compute fight for a machine's cores, and a bubble is filled by whoever runs beside it.
Ranks that sleep do not: on two cores four of them take as long as on four GPUs that are as fast.
Everything else is real: the processes, the order, the messages, and who waits for whom.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from ..config import ParallelConfig
from ..data.loader import MicroBatch, StepBatch
from ..estimate.time.pipeline import Durations, Timeline
from ..launch import launch
from ..layout.schedule import Action, PipelineSchedule, splits_backward
from ..parallel.comm import Axis
from ..parallel.gradient_sync import GradientSync
from ..parallel.mesh import Mesh
from ..parallel.pipeline import Boundary, Pipeline
from ..parallel.stage import Part


class Lane(NamedTuple):
    """One rank's step: (action, start, end) in seconds of time.perf_counter, from `began` on, of
    which it stood still for `waited` seconds because a message was not there. `held`: the most
    micro-batches that were alive at once, from F to the end of B, or of W."""

    spans: list[tuple[Action, float, float]]
    began: float
    waited: float
    held: int


def measured_timeline(
    schedule: PipelineSchedule,
    forward_seconds: Durations,
    backward_seconds: Durations,
    weight_seconds: Durations = 0,
    timeout: float = 60.0,
) -> Timeline:
    """Carry `schedule` out on as many processes as it has ranks, and time every action; takes what
    `estimate.time.pipeline.simulate` takes and returns what it returns.

    `busy_seconds` are those in which a rank did not wait for a message, so that what the system
    adds to a sleep, or sending costs, is no bubble.
    Raises LaunchError, which names the ranks, for a schedule that waits for ever (`timeout`).
    """
    durations = forward_seconds, backward_seconds, weight_seconds
    lanes = launch(
        run_waiting, len(schedule), schedule, *durations, threads=1, timeout=timeout, quiet=True
    )
    return timeline_of(schedule, lanes)


def timeline_of(schedule: PipelineSchedule, lanes: Sequence[Lane]) -> Timeline:
    """What every rank's `run_waiting` returned, on one clock that begins with the first rank."""
    zero = min(lane.began for lane in lanes)
    starts = tuple(tuple(start - zero for _, start, _ in lane.spans) for lane in lanes)
    ends = tuple(tuple(end - zero for _, _, end in lane.spans) for lane in lanes)
    busy = tuple(lane.spans[-1][2] - lane.began - lane.waited for lane in lanes)
    return Timeline(schedule, starts, ends, busy)


def run_waiting(
    schedule: PipelineSchedule,
    forward_seconds: Durations,
    backward_seconds: Durations,
    weight_seconds: Durations = 0,
    axis: Axis | None = None,
) -> Lane:
    """On a rank: one step of `schedule`, each action a sleep of its stage's seconds. `axis`: where
    there is one of all ranks already."""
    if axis is None:
        axis = Mesh(ParallelConfig(pp=int(os.environ["WORLD_SIZE"])))["pp"]
    stages = 1 + max(action.stage for actions in schedule for action in actions)
    given = (forward_seconds, backward_seconds, weight_seconds)
    f, b, w = ([d] * stages if isinstance(d, int | float) else list(d) for d in given)
    if not splits_backward(schedule):
        b = [whole + part for whole, part in zip(b, w, strict=True)]
    # once without waiting: connections are made, modules loaded
    for scale in (0.0, 1.0):
        pipeline = _Timed(
            schedule, axis, *([scale * seconds for seconds in part] for part in (f, b, w))
        )
        axis.all_reduce(torch.zeros(1), purpose="control").wait()
        axis.ledger.clear()
        began = time.perf_counter()
        pipeline.step()
    return Lane(pipeline.spans, began, axis.ledger.idle_seconds, pipeline.alive.most)


class _Timed(Pipeline):
    """The executor with a stop-watch around each action."""

    def __init__(
        self,
        schedule: PipelineSchedule,
        axis: Axis,
        forward: list[float],
        backward: list[float],
        weight: list[float],
    ) -> None:
        self.spans: list[tuple[Action, float, float]] = []
        self.alive = _Alive()
        self.micro_batches = 1 + max(action.micro for action in schedule[axis.rank])
        here = dict.fromkeys(action.stage for action in schedule[axis.rank])
        weights = _WaitingWeights(weight) if splits_backward(schedule) else None
        super().__init__(
            {s: [_waiting_part(forward[s], backward[s], self.alive, weights)] for s in here},
            schedule,
            axis,
            axis.ledger,
            boundary=Boundary((1,), torch.float32, torch.device("cpu")),
            weight_grads=weights,
        )

    def step(self) -> None:
        """One step; there is no data and nothing to learn."""
        nothing = torch.nn.Identity()
        batch = StepBatch(0, (MicroBatch(None, None),) * self.micro_batches, self.micro_batches)
        self.run(GradientSync(nothing, self.axis), batch, 1.0)

    def _run(self, action: Action, step: Any) -> None:
        began = time.perf_counter()
        super()._run(action, step)
        self.spans.append((action, began, time.perf_counter()))


class _Alive:
    """Counts what is kept of forward passes, by the life of what autograd keeps."""

    def __init__(self) -> None:
        self.now = self.most = 0


class _Kept:
    """Stands for the activations of one micro-batch on one stage; dies with the last that holds
    it."""

    def __init__(self, alive: _Alive) -> None:
        self.alive = alive
        alive.now += 1
        alive.most = max(alive.most, alive.now)

    def __del__(self) -> None:
        self.alive.now -= 1


class _WaitingWeights:
    """In the place of a WeightGradStore."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds
        self._waiting: dict[tuple[int, int], list[_Kept]] = {}
        self._now: list[_Kept] = []

    def open(self, key: tuple[int, int]) -> None:
        """What is put in from now on belongs to `key`."""
        self._now = self._waiting.setdefault(key, [])

    def put(self, kept: _Kept) -> None:
        """`kept` is needed until its weight gradients are computed."""
        self._now.append(kept)

    def compute(self, key: tuple[int, int]) -> None:
        """Wait for the weights of (micro-batch, stage)."""
        time.sleep(self.seconds[key[1]])
        self._waiting.pop(key).clear()
        self._now = []


def _waiting_part(
    forward: float, backward: float, alive: _Alive, weights: _WaitingWeights | None
) -> Part:
    class Wait(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.kept = _Kept(alive)
            time.sleep(forward)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            time.sleep(backward)
            if weights is not None:
                weights.put(ctx.kept)
            del ctx.kept
            return gradient

    def run(x: Tensor | None, _: MicroBatch) -> Tensor:
        return Wait.apply(torch.zeros(1, requires_grad=True) if x is None else x)

    return Part("wait", run)
