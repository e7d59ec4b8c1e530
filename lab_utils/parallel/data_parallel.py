"""Data parallelism: every rank holds the whole model and a share of the batch; gradients are summed
over the ranks.

Two ways, side by side. *Naive*: after the backward pass, one all-reduce per gradient, each waited
for. *Bucketed*: as gradients appear they are copied into flat buckets, and a full bucket leaves at
once, while the backward pass goes on (Li et al. 2020, "PyTorch Distributed: Experiences on
Accelerating Data Parallel Training"). The difference is the lesson.

Gradients are summed, not averaged: the loss is divided by the *global* batch's token count before
the backward pass, so the sum over ranks already is the gradient of the global mean, however
unevenly the tokens are spread.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from ..i18n import t
from ..layout.buckets import Bucket, assign_buckets
from .comm import Axis, Pending
from .owned import Owned, Piece
from .stage import Part


class GradientSync:
    """How gradients become the same on all ranks. This base class is what one rank needs: nothing.

    A step is: `zero_grad()`, a backward pass per micro-batch (all but the last inside `no_sync()`),
    `finish()`. `model` is what to call. `averaged_over`: by what this way divides the sum over
    ranks (ours: 1; torch's DDP: N).
    """

    averaged_over = 1
    sharded = False  # whether the ranks of the axis own different parts of the model (ZeRO)

    def __init__(self, model: nn.Module, axis: Axis) -> None:
        self.model, self.axis, self.enabled = model, axis, True
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}

    def _watch_gradients(self) -> None:
        """Have `_gradient_exists(name, parameter)` called for every gradient that autograd
        completes.

        Hooks live in C++, where no garbage collector looks for cycles: one that held us would keep
        the model and the process group for ever, and a process group that outlives the interpreter
        takes the process down with SIGABRT.
        """
        me = weakref.ref(self)

        def call(parameter: nn.Parameter, name: str) -> None:
            if (sync := me()) is not None:
                sync._gradient_exists(name, parameter)

        for name, parameter in self.parameters.items():
            parameter.register_post_accumulate_grad_hook(partial(call, name=name))

    def _gradient_exists(self, name: str, parameter: nn.Parameter) -> None:
        """A gradient has appeared in `parameter.grad`."""

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes inside only add to this rank's gradients; nothing is sent."""
        self.enabled = False
        try:
            yield
        finally:
            self.enabled = True

    def zero_grad(self) -> None:
        """Forget the last step's gradients."""
        for parameter in self.parameters.values():
            parameter.grad = None

    def finish(self) -> None:
        """Return when every gradient is the sum over the ranks."""

    def owned(self) -> list[Owned]:
        """What this rank's optimizer updates: here every parameter."""
        return [
            Owned(name, p, lambda p=p: p.grad, (Piece(name, 0, p.numel(), 0),))
            for name, p in self.parameters.items()
        ]

    def publish(self) -> None:
        """After the optimizer step: bring updated weights to the ranks that need them. Here all
        have them."""

    def held(self) -> dict[str, list[Tensor]]:
        """The tensors behind the report's memory terms: "parameters", "gradients", and "buckets"
        beyond these."""
        parameters = list(self.parameters.values())
        return {
            "parameters": parameters,
            "gradients": [p.grad for p in parameters if p.grad is not None],
            "buckets": [],
        }

    def weights(self) -> list[Tensor]:
        """The tensors whose storages hold weights, so are no activations when autograd saves
        them."""
        return list(self.parameters.values())

    def around(self, parts: list[Part]) -> list[Part]:
        """The model's parts with what has to happen before and after each; here nothing."""
        return parts


class NaiveSync(GradientSync):
    """One all-reduce per gradient after the backward pass, each waited for before the next."""

    def __init__(self, model: nn.Module, axis: Axis) -> None:
        super().__init__(model, axis)
        self._watch_gradients()

    def _gradient_exists(self, name: str, parameter: nn.Parameter) -> None:
        self.axis.ledger.mark("gradient", name)  # for the trace alone: nothing is sent from here

    def finish(self) -> None:
        for name, parameter in self.parameters.items():
            if parameter.grad is None:  # unused here, but perhaps not on the other ranks
                parameter.grad = torch.zeros_like(parameter)
            self.axis.all_reduce(parameter.grad, purpose="gradient", label=name).wait()


class BucketedSync(GradientSync):
    """Flat buckets that leave in order, each as soon as its last gradient exists; waited for only
    at the end.

    Invariants: once a gradient has appeared, `parameter.grad` is a view of its bucket, so nothing
    is copied back; one that has a bucket to itself is that bucket, so nothing is copied at all.
    Buckets leave in the same order on every rank, or the ranks would add up different buckets.
    """

    def __init__(self, model: nn.Module, axis: Axis, bucket_bytes: int) -> None:
        super().__init__(model, axis)
        first = next(iter(self.parameters.values()))
        numels = {name: p.numel() for name, p in self.parameters.items()}
        self.layout = assign_buckets(numels, bucket_bytes, first.element_size())
        self.buffers = {
            i: torch.zeros(bucket.numel, dtype=first.dtype, device=first.device)
            for i, bucket in enumerate(self.layout)
            if len(bucket.names) > 1
        }
        self.views = {
            name: view
            for i, buffer in self.buffers.items()
            for name, view in self._cut(self.layout[i], buffer)
        }
        self.bucket_of = {name: i for i, bucket in enumerate(self.layout) for name in bucket.names}
        self._begin_step()
        self._watch_gradients()

    def _cut(self, bucket: Bucket, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        for name, offset in zip(bucket.names, bucket.offsets, strict=True):
            parameter = self.parameters[name]
            yield name, buffer[offset : offset + parameter.numel()].view_as(parameter)

    def _begin_step(self) -> None:
        self.missing = [set(bucket.names) for bucket in self.layout]
        self.pending: list[Pending] = []

    def zero_grad(self) -> None:
        super().zero_grad()
        self._begin_step()

    def _gradient_exists(self, name: str, parameter: Tensor) -> None:
        if name not in self.missing[self.bucket_of[name]]:
            raise _appeared_twice(name)
        self._move_into_bucket(name, parameter)
        if self.enabled:
            self.axis.ledger.mark("gradient", name)
            self.missing[self.bucket_of[name]].discard(name)
            self._send_full_buckets()

    def _move_into_bucket(self, name: str, parameter: Tensor) -> None:
        view = self.views.get(name)
        if view is None:
            parameter.grad = parameter.grad.contiguous()
        elif parameter.grad is not view:
            view.copy_(parameter.grad)
            parameter.grad = view

    def _send_full_buckets(self) -> None:
        while len(self.pending) < len(self.layout) and not self.missing[len(self.pending)]:
            number = len(self.pending)
            alone = self.layout[number].names[0]
            whole = self.buffers[number] if number in self.buffers else self.parameters[alone].grad
            self.pending.append(
                self.axis.all_reduce(whole, purpose="gradient", label=f"bucket {number}")
            )

    def finish(self) -> None:
        for name in {name for names in self.missing for name in names}:
            parameter = self.parameters[name]
            # took no part in this rank's loss: its share of the sum is 0
            if parameter.grad is None:
                parameter.grad = (
                    self.views[name].zero_() if name in self.views else torch.zeros_like(parameter)
                )
            self.missing[self.bucket_of[name]].discard(name)
        self._send_full_buckets()
        for pending in self.pending:
            pending.wait()

    def held(self) -> dict[str, list[Tensor]]:
        """A bucket counts as gradients from the start, though they come to lie in it one by one."""
        held = super().held()
        return held | {"gradients": [*self.buffers.values(), *held["gradients"]]}


def _appeared_twice(name: str) -> RuntimeError:
    return RuntimeError(
        t(
            f"the gradient of {name} appeared twice in one step, when its bucket may have left"
            " already: put every backward pass but the last inside no_sync(), and call zero_grad()"
            " before each step.",
            f"{name} 的梯度在同一步里出现了两次，而它所在的桶可能已经发出："
            "除最后一次外，每次反向传播都应放在 no_sync() 里，并在每步开始前调用 zero_grad()。",
        )
    )


def data_parallel(
    model: nn.Module, axis: Axis, *, gradient_sync: str = "bucketed", bucket_bytes: int = 4 * 2**20
) -> GradientSync:
    """Keep the gradients of `model` equal over `axis`; the model itself is left as it is.

    `gradient_sync`: "naive" or "bucketed". On an axis of one rank: the identity.
    """
    if axis.size == 1:
        return GradientSync(model, axis)
    return (
        NaiveSync(model, axis)
        if gradient_sync == "naive"
        else BucketedSync(model, axis, bucket_bytes)
    )
