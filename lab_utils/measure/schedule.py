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
from ..parallel.gradient_sync import GradientSync
from ..parallel.mesh import Mesh
from ..parallel.pipeline import Boundary, Pipeline
from ..parallel.stage import Part


class Lane(NamedTuple):
    """One rank's step: (action, start, end) in seconds of time.perf_counter, from `began` on, of
    which it stood still for `waited` seconds because a message was not there."""

    spans: list[tuple[Action, float, float]]
    began: float
    waited: float


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
) -> Lane:
    """On a rank: one step of `schedule`, each action a sleep of its stage's seconds."""
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
    return Lane(pipeline.spans, began, axis.ledger.idle_seconds)


class _Timed(Pipeline):
    """The executor with a stop-watch around each action."""

    def __init__(
        self,
        schedule: PipelineSchedule,
        axis: Any,
        forward: list[float],
        backward: list[float],
        weight: list[float],
    ) -> None:
        self.spans: list[tuple[Action, float, float]] = []
        self.micro_batches = 1 + max(action.micro for action in schedule[axis.rank])
        here = dict.fromkeys(action.stage for action in schedule[axis.rank])
        super().__init__(
            {stage: [_waiting_part(forward[stage], backward[stage])] for stage in here},
            schedule,
            axis,
            axis.ledger,
            boundary=Boundary((1,), torch.float32, torch.device("cpu")),
            weight_grads=_WaitingWeights(weight) if splits_backward(schedule) else None,
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


def _waiting_part(forward: float, backward: float) -> Part:
    class Wait(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            time.sleep(forward)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            time.sleep(backward)
            return gradient

    def run(x: Tensor | None, _: MicroBatch) -> Tensor:
        return Wait.apply(torch.zeros(1, requires_grad=True) if x is None else x)

    return Part("wait", run)


class _WaitingWeights:
    """In the place of a WeightGradStore."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds = seconds

    def open(self, key: tuple[int, int]) -> None:
        """Nothing is put off: it is only waited for later."""

    def compute(self, key: tuple[int, int]) -> None:
        """Wait for the weights of (micro-batch, stage)."""
        time.sleep(self.seconds[key[1]])
