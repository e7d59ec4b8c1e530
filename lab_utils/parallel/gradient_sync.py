"""How gradients become the same on all ranks: the steps that every way has in common, and the start
from the same weights."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial

import torch
from torch import Tensor, nn

from .comm import Axis
from .optimizer_shard import OptimizerShard, Piece
from .stage import Part

# patterns of parameters' names, and the axis over which those ranks that hold the same of them lie
Others = Mapping[str, Axis]


def axis_of(name: str, axis: Axis, others: Others | None) -> Axis:
    """Over which axis a parameter's gradient is summed: the first pattern's that it fits, else the
    model's."""
    return next((found for glob, found in (others or {}).items() if fnmatch(name, glob)), axis)


class GradientSync:
    """How gradients become the same on all ranks. This base class is what one rank needs: nothing.

    A step is: `zero_grad()`, a backward pass per micro-batch (all but the last inside `no_sync()`),
    `finish()`. `model` is what to call. `averaged_over`: by what this way divides the sum over
    ranks (ours: 1 unless asked for the mean; torch's DDP: N).
    """

    sharded = False  # whether the ranks of the axis own different parts of the model (ZeRO)

    def __init__(
        self, model: nn.Module, axis: Axis, average: bool = False, others: Others | None = None
    ) -> None:
        self.model, self.axis, self.enabled = model, axis, True
        self.averaged_over = axis.size if average else 1
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.axis_of = {name: axis_of(name, axis, others) for name in self.parameters}

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

    def _share(self, gradient: Tensor) -> Tensor:
        """What this rank adds to the sum: its gradient, in place divided by N where the mean is
        wanted."""
        return gradient if self.averaged_over == 1 else gradient.div_(self.averaged_over)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """For all micro-batches but the last: backward passes inside only add to this rank's
        gradients, and nothing is sent (ZeRO-2 and 3 send each micro-batch's all the same)."""
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

    def optimizer_shards(self) -> list[OptimizerShard]:
        """What this rank's optimizer updates: here every parameter."""
        return [
            OptimizerShard(name, p, lambda p=p: p.grad, (Piece(name, 0, p.numel(), 0),))
            for name, p in self.parameters.items()
        ]

    def gather_parameters(self) -> None:
        """After the optimizer step: bring updated weights to the ranks that need them. Here all
        have them."""

    def wrap(self, parts: list[Part]) -> list[Part]:
        """The model's parts with what has to happen before and after each; here nothing."""
        return parts


def same_start(model: nn.Module, axis: Axis, others: Others | None = None) -> None:
    """Give every rank of the axis the weights and buffers of its rank 0, frozen ones, too; what
    fits a pattern of `others` along that axis.

    As torch's DDP does when it wraps a model (Li et al. 2020, section 4.1). Once: whoever loads or
    draws weights later does so on every rank. What two modules share is sent once.
    """
    with torch.no_grad():
        named = (*model.named_parameters(), *model.named_buffers())
        for name, tensor in {id(x): (name, x) for name, x in reversed(named)}.values():
            whole, own = tensor.detach().contiguous(), axis_of(name, axis, others)
            own.broadcast(whole, 0, purpose="parameter", label="same start").wait()
            tensor.copy_(whole)
