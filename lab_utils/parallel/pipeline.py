"""The executor of pipeline schedules: it walks down this rank's list of actions, whichever schedule
drew it up.

Activations travel forward and their gradients backward, point to point, between the ranks of
neighbouring stages. A rank without neighbours runs the same list, so accumulation over
micro-batches on one rank is no other code.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..data.loader import MicroBatch, StepBatch
from ..layout.schedule import Action, Plan, make_schedule, splits_backward
from .comm import Axis, Pending
from .deferred import WeightQueue
from .gradient_sync import GradientSync
from .ledger import Ledger
from .stage import Part

# channels, so that messages of the two directions are never mistaken for one another
_FORWARD, _BACKWARD = 0, 1


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


class _Sent(NamedTuple):
    """A message on its way: to whom, at which of its actions it is needed, and the tensor that must
    stay until then."""

    to: int
    needed_at: int
    pending: Pending
    tensor: Tensor


class Pipeline:
    """Forward and backward passes of this rank's `stages` in the order of its `actions`.

    `boundary` is needed where there are neighbours, `queue` where the schedule puts off gradients
    of weights; `autocast` makes the context in which a forward pass runs.
    """

    def __init__(
        self,
        stages: dict[int, list[Part]],
        plan: Plan,
        axis: Axis,
        ledger: Ledger,
        *,
        boundary: Boundary | None = None,
        queue: WeightQueue | None = None,
        autocast: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        self.stages, self.actions, self.axis, self.ledger = stages, plan[axis.rank], axis, ledger
        self.position = [{action: i for i, action in enumerate(actions)} for actions in plan]
        self.boundary, self.queue, self.autocast = boundary, queue, autocast
        self.count = max(action.stage for actions in plan for action in actions) + 1
        self.final_kind = "W" if splits_backward(plan) else "B"

    def run(self, sync: GradientSync, batch: StepBatch, loss_factor: float) -> float:
        """Gradients of `loss_factor` × the loss sum are added up in `sync`; returns the share's
        loss sum (0 where no stage ends).

        Every tp rank of the last stage returns the same sum.
        """
        self.batch, self.sync, self.loss_factor, self.loss_sum = batch, sync, loss_factor, 0.0
        self.inputs: dict[tuple[int, int], Tensor] = {}
        self.outputs: dict[tuple[int, int], Tensor | GradientEdge] = {}
        self.sent: list[_Sent] = []
        arriving = self._await(self.actions[0])
        for action, following in zip(self.actions, (*self.actions[1:], None), strict=True):
            # the next message may come while this action computes
            arrived, arriving = arriving, self._await(following)
            last = action.micro == len(batch.micro_batches) - 1
            with nullcontext() if last else sync.no_sync():
                self._carry_out(action, arrived)
        for sent in self.sent:
            sent.pending.wait()
        return self.loss_sum

    def _carry_out(self, action: Action, arrived: tuple[Pending, Tensor] | None) -> None:
        if arrived is not None:
            arrived[0].wait()
            self._let_go(action)
        message = None if arrived is None else arrived[1]
        if action.kind == "F":
            self._forward(action, message)
        elif action.kind == "B":
            self._backward(action, message)
        else:
            self.queue.work_off((action.micro, action.stage))

    def _forward(self, action: Action, x: Tensor | None) -> None:
        key, micro = (action.micro, action.stage), self.batch.micro_batches[action.micro]
        if x is not None:
            self.inputs[key] = x.requires_grad_()
            self.ledger.hold("activations", x)
        with self.autocast():
            for part in self.stages[action.stage]:
                x = part.run(x, micro)
        if action.stage == self.count - 1:
            self.loss_sum += x.item()
            self.outputs[key] = x
        else:
            # not x itself: once sent, nobody here needs its numbers
            self.outputs[key] = get_gradient_edge(x)
            self.boundary.leave(x, action.stage + 1)
            self._send(x.detach(), action._replace(stage=action.stage + 1), _FORWARD)

    def _backward(self, action: Action, gradient: Tensor | None) -> None:
        key = action.micro, action.stage
        if self.queue is not None:
            self.queue.open(key)
        if gradient is None:
            (self.outputs.pop(key) * self.loss_factor).backward()
        else:
            torch.autograd.backward(self.outputs.pop(key), gradient)
        x = self.inputs.pop(key, None)
        if x is not None:
            self.ledger.release("activations", x)
            # a stage may make nothing of its input
            gradient = torch.zeros_like(x) if x.grad is None else x.grad
            self._send(gradient, action._replace(stage=action.stage - 1), _BACKWARD)

    def _send(self, tensor: Tensor, needed_by: Action, channel: int) -> None:
        tensor, to = tensor.contiguous(), needed_by.stage % self.axis.size
        pending = self.axis.send(tensor, to, purpose="activation", channel=channel)
        self.sent.append(_Sent(to, self.position[to][needed_by], pending, tensor))

    def _let_go(self, action: Action) -> None:
        """The message for `action` is here: its sender had by then used all that we sent it for
        earlier actions of its own.

        A send cannot be asked whether it is through, and waiting for it may be waiting for
        ourselves.
        """
        stage = action.stage + (-1 if action.kind == "F" else 1)
        sender = stage % self.axis.size
        reached = self.position[sender][action._replace(stage=stage)]
        through = [sent for sent in self.sent if sent.to == sender and sent.needed_at <= reached]
        for sent in through:
            sent.pending.wait()
            self.sent.remove(sent)

    def _await(self, action: Action | None) -> tuple[Pending, Tensor] | None:
        """Begin to receive what an action needs from another rank, if anything."""
        if action is None or action.kind == "W":
            return None
        neighbour = action.stage + (-1 if action.kind == "F" else 1)
        if not 0 <= neighbour < self.count:
            return None
        room = self.boundary.empty(max(action.stage, neighbour))
        channel = _FORWARD if action.kind == "F" else _BACKWARD
        return self.axis.receive(room, neighbour % self.axis.size, channel=channel), room


def whole_model(sync: GradientSync, micro_batches: int) -> Pipeline:
    """The pipeline of one rank that holds all of `sync.model`: forward and backward, one
    micro-batch after the other."""

    def run(_: Tensor | None, micro: MicroBatch) -> Tensor:
        return sync.model(micro.tokens, micro.targets)[0]

    alone = Axis("pp", [0], 0, None, sync.axis.ledger)
    return Pipeline(
        {0: [Part("all", run)]}, make_schedule("1f1b", 1, micro_batches), alone, sync.axis.ledger
    )
