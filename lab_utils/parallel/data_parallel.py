"""Data parallelism: every rank holds the whole model and a share of the batch; gradients are summed
over the ranks.

Two ways, side by side. *Naive*: after the backward pass, one all-reduce per gradient, each waited
for. *Bucketed*: as gradients appear they are copied into flat buckets, and a full bucket leaves at
once, while the backward pass goes on (Li et al. 2020, "PyTorch Distributed: Experiences on
Accelerating Data Parallel Training"). The difference is the lesson.

Our engine has gradients summed, not averaged: it divides the loss by the *global* batch's token
count before the backward pass, so the sum over ranks already is the gradient of the global mean,
however unevenly the tokens are spread. For a model of your own whose loss is the mean over a rank's
equal share, `data_parallel(…, average=True)`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..i18n import t
from ..layout.buckets import Bucket, assign_buckets
from .comm import Axis, Pending
from .gradient_sync import GradientSync, Others, same_start


class NaiveSync(GradientSync):
    """One all-reduce per gradient after the backward pass, each waited for before the next."""

    def __init__(
        self, model: nn.Module, axis: Axis, average: bool = False, others: Others | None = None
    ) -> None:
        super().__init__(model, axis, average, others)
        self._watch_gradients()

    def _gradient_exists(self, name: str, parameter: nn.Parameter) -> None:
        self.axis.ledger.mark("gradient", name)  # for the trace alone: nothing is sent from here

    def finish(self) -> None:
        for name, parameter in self.parameters.items():
            if parameter.grad is None:  # unused here, but perhaps not on the other ranks
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad = self._share(parameter.grad.contiguous())
            self.axis_of[name].all_reduce(parameter.grad, purpose="gradient", label=name).wait()


class BucketedSync(GradientSync):
    """Flat buckets that leave in order, each as soon as its last gradient exists; waited for only
    at the end.

    Invariants: once a gradient has appeared, `parameter.grad` is a view of its bucket, so nothing
    is copied back; one that has a bucket to itself is that bucket, so nothing is copied at all.
    Buckets leave in the same order on every rank, or the ranks would add up different buckets.
    """

    def __init__(
        self,
        model: nn.Module,
        axis: Axis,
        bucket_bytes: int,
        average: bool = False,
        others: Others | None = None,
    ) -> None:
        super().__init__(model, axis, average, others)
        self.layout = self._buckets(bucket_bytes)
        self.buffers = {
            i: self.parameters[bucket.names[0]].new_zeros(bucket.numel)
            for i, bucket in enumerate(self.layout)
            if len(bucket.names) > 1
        }
        self.views = {
            name: view
            for i, buffer in self.buffers.items()
            for name, view in self._cut(self.layout[i], buffer)
        }
        self.bucket_of = {name: i for i, bucket in enumerate(self.layout) for name in bucket.names}
        self.missing = [set(bucket.names) for bucket in self.layout]
        self.pending: list[Pending] = []  # of the buckets that have left
        self._watch_gradients()

    def _buckets(self, bucket_bytes: int) -> list[Bucket]:
        """Of one dtype and one axis each, in the order in which their last gradients appear."""
        forward = {name: place for place, name in enumerate(self.parameters)}
        alike: dict[tuple[torch.dtype, str], dict[str, int]] = {}
        for name, p in self.parameters.items():
            alike.setdefault((p.dtype, self.axis_of[name].name), {})[name] = p.numel()
        buckets = [
            bucket
            for (dtype, _), numels in alike.items()
            for bucket in assign_buckets(numels, bucket_bytes, dtype.itemsize)
        ]
        return sorted(buckets, key=lambda bucket: -forward[bucket.names[-1]])

    def _cut(self, bucket: Bucket, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        for name, offset in zip(bucket.names, bucket.offsets, strict=True):
            parameter = self.parameters[name]
            yield name, buffer[offset : offset + parameter.numel()].view_as(parameter)

    def zero_grad(self) -> None:
        super().zero_grad()
        self.missing = [set(bucket.names) for bucket in self.layout]
        self.pending = []

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
            alone = self.layout[number].names[0]  # or one of several, which have its axis
            whole = self.buffers[number] if number in self.buffers else self.parameters[alone].grad
            share = self._share(whole)
            self.pending.append(
                self.axis_of[alone].all_reduce(share, purpose="gradient", label=f"bucket {number}")
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
    model: nn.Module,
    axis: Axis,
    *,
    gradient_sync: str = "bucketed",
    bucket_bytes: int = 4 * 2**20,
    average: bool = False,
    broadcast: bool = True,
    others: Others | None = None,
) -> GradientSync:
    """Keep the gradients of any `model` equal over `axis`; the model itself is left as it is.

    `gradient_sync`: "naive" or "bucketed". `average`: the mean over the ranks instead of the sum.
    `broadcast`: first give all ranks rank 0's weights and buffers; without it they must be equal.
    Parameters may have several dtypes (a bucket holds one), be shared by modules, or be frozen:
    those that need no gradient now are never sent. On an axis of one rank: the identity.

    `others`: {"*.experts.*": edp} for parameters that lie differently: each rank of `axis` has its
    own of them, and only the ranks of that axis the same. Their mean, too, is over `axis`, whose
    ranks all send them tokens.
    """
    if broadcast:
        same_start(model, axis, others)
    if axis.size == 1 or not any(p.requires_grad for p in model.parameters()):
        return GradientSync(model, axis)
    if gradient_sync == "naive":
        return NaiveSync(model, axis, average, others)
    return BucketedSync(model, axis, bucket_bytes, average, others)
