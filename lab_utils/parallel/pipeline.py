"""The executor of pipeline schedules: it carries out this rank's events, whichever schedule drew
them up (layout/pipeline_events.py says in which order, and why).

Activations travel forward and their gradients backward, point to point, between the ranks of
neighbouring stages. A rank without neighbours runs the same list, so accumulation over
micro-batches on one rank is no other code.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..data.loader import MicroBatch, StepBatch
from ..layout.pipeline_events import Await, Channel, Receive, Release, Run, Send, pipeline_events
from ..layout.schedule import Action, PipelineSchedule, make_schedule
from .comm import Axis, Pending
from .gradient_sync import GradientSync
from .ledger import Ledger
from .stage import Part
from .weight_grad_store import WeightGradStore


@dataclass(frozen=True)
class Boundary:
    """What passes between stages: the residual stream of one micro-batch (or this rank's tokens of
    it). Here it is the same between all of them."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def empty(self, stage: int) -> Tensor:
        """Room for one message: what enters `stage`, or its gradient."""
        return torch.empty(self.shape, dtype=self.dtype, device=self.device)

    def leave(self, x: Tensor, stage: int) -> None:
        """`x` is about to be sent to `stage`."""


@dataclass
class _Step:
    """What a rank holds in the course of one step; actions and (micro-batch, stage) are keys."""

    sync: GradientSync
    batch: StepBatch
    loss_factor: float
    loss_sum: float = 0.0
    arriving: dict[Action, tuple[Pending, Tensor]] = field(default_factory=dict)
    inputs: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    outputs: dict[tuple[int, int], Tensor | GradientEdge] = field(default_factory=dict)
    made: dict[Action, Tensor] = field(default_factory=dict)  # until it is sent
    sent: dict[Action, tuple[Pending, Tensor]] = field(default_factory=dict)


class Pipeline:
    """Forward and backward passes of this rank's `stages` in the order of `schedule`.

    `boundary` is needed where there are neighbours, `weight_grads` where the schedule puts off
    gradients of weights; `autocast` makes the context in which a forward pass runs.
    """

    def __init__(
        self,
        stages: dict[int, list[Part]],
        schedule: PipelineSchedule,
        axis: Axis,
        ledger: Ledger,
        *,
        boundary: Boundary | None = None,
        weight_grads: WeightGradStore | None = None,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        self.stages, self.axis, self.ledger = stages, axis, ledger
        self.events = pipeline_events(schedule, axis.rank)
        self.last_stage = max(action.stage for actions in schedule for action in actions)
        self.boundary, self.weight_grads, self.autocast = boundary, weight_grads, autocast

    def run(self, sync: GradientSync, batch: StepBatch, loss_factor: float) -> float:
        """Gradients of `loss_factor` × the loss sum are added up in `sync`; returns the share's
        loss sum (0 where no stage ends).

        Every tp rank of the last stage returns the same sum.
        """
        step = _Step(sync, batch, loss_factor)
        for event in self.events:
            match event:
                case Receive():
                    self._receive(event, step)
                case Await(action):
                    step.arriving[action][0].wait()
                case Run(action):
                    last = action.micro == len(batch.micro_batches) - 1
                    with nullcontext() if last else sync.no_sync():
                        self._run(action, step)
                case Send():
                    self._send(event, step)
                case Release(action):
                    step.sent.pop(action)[0].wait()
        return step.loss_sum

    def _receive(self, event: Receive, step: _Step) -> None:
        room = self.boundary.empty(event.boundary)
        pending = self.axis.receive(room, event.source, channel=event.channel)
        step.arriving[event.action] = pending, room

    def _run(self, action: Action, step: _Step) -> None:
        _, message = step.arriving.pop(action, (None, None))
        if action.kind == "F":
            self._forward(action, message, step)
        elif action.kind == "B":
            self._backward(action, message, step)
        else:
            self.weight_grads.compute((action.micro, action.stage))

    def _forward(self, action: Action, x: Tensor | None, step: _Step) -> None:
        key, micro = (action.micro, action.stage), step.batch.micro_batches[action.micro]
        if x is not None:
            step.inputs[key] = x.requires_grad_()
            self.ledger.hold("activations", x)
        with self.autocast():
            for part in self.stages[action.stage]:
                x = part.run(x, micro)
        if action.stage == self.last_stage:
            step.loss_sum += x.item()
            step.outputs[key] = x
        else:
            # not x itself: once sent, nobody here needs its numbers
            step.outputs[key] = get_gradient_edge(x)
            step.made[action] = x.detach()

    def _backward(self, action: Action, gradient: Tensor | None, step: _Step) -> None:
        key = action.micro, action.stage
        if self.weight_grads is not None:
            self.weight_grads.open(key)
        if gradient is None:
            (step.outputs.pop(key) * step.loss_factor).backward()
        else:
            torch.autograd.backward(step.outputs.pop(key), gradient)
        x = step.inputs.pop(key, None)
        if x is not None:
            self.ledger.release("activations", x)
            # a stage may make nothing of its input
            step.made[action] = torch.zeros_like(x) if x.grad is None else x.grad

    def _send(self, event: Send, step: _Step) -> None:
        tensor = step.made.pop(event.action).contiguous()
        if event.channel is Channel.ACTIVATIONS:
            self.boundary.leave(tensor, event.needed_by.stage)
        pending = self.axis.send(tensor, event.to, purpose="activation", channel=event.channel)
        step.sent[event.action] = pending, tensor


def whole_model(sync: GradientSync, micro_batches: int) -> Pipeline:
    """The pipeline of one rank that holds all of `sync.model`: forward and backward, one
    micro-batch after the other."""

    def run(_: Tensor | None, micro: MicroBatch) -> Tensor:
        return sync.model(micro.tokens, micro.targets)[0]

    alone = Axis("pp", [0], 0, None, sync.axis.ledger)
    return Pipeline(
        {0: [Part("all", run)]}, make_schedule("1f1b", 1, micro_batches), alone, sync.axis.ledger
    )
