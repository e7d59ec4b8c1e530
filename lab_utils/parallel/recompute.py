"""Recomputation: keep a function's inputs instead of what it would save, and run it again when its
gradient is due.

Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; which part of a transformer is
worth it: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models",
section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint as checkpoint_of_torch

from ..i18n import t
from ..parallel.context import SwapHeadsForTokens

Function = Callable[..., Any]
# of the whole process: CUDA's backward runs in threads that torch starts
_observers: list[Callable[[bool], None]] = []


def checkpoint(function: Function, *inputs: Any) -> Any:
    """`function(*inputs)` with only its tensor inputs saved; the backward pass runs it a second
    time.

    `function` returns a tensor or a tuple of tensors, and gives the same result whenever random
    numbers and autocast are the same, both of which are put back for its second run; it must not
    change its inputs in place. Gradients reach `inputs` and whatever parameters it uses, whose
    hooks fire. As torch's reentrant checkpoint, it needs `.backward()` of everything:
    torch.autograd.grad and backward(inputs=…) raise RuntimeError.
    """
    if not torch.is_grad_enabled():
        return function(*inputs)
    differentiable = any(isinstance(x, Tensor) and x.requires_grad for x in inputs)
    # autograd calls us back only for an input that requires grad; parameters inside may be all that
    # does
    stand_in = None if differentiable else torch.empty(0, device="cpu", requires_grad=True)
    return _Recomputed.apply(function, stand_in, *inputs)


def torch_checkpoint(function: Function, *inputs: Any) -> Any:
    """The same with torch's own checkpoint (non-reentrant), so that the two can be compared and
    observed alike.

    It leaves its second run as soon as the last tensor to be saved is there, mostly before the last
    product.
    """
    return checkpoint_of_torch(
        function, *inputs, use_reentrant=False, context_fn=lambda: (nullcontext(), _announced())
    )


def recompute(model: nn.Module, policy: str, by: Function = checkpoint) -> None:
    """Let parts of `model` be computed twice rather than saved; names of parameters stay as they
    are.

    `policy` is TrainConfig.recompute's word: "none"; "selective" (each `block.attention.core`, much
    saved for few FLOPs); "full" (each block); or block numbers like "0,2,5", of which those count
    that `model.blocks`, a ModuleList or a ModuleDict keyed by number, holds. `by(function,
    *inputs)` runs a part: `checkpoint` or `torch_checkpoint`. Only `forward` is replaced, so
    weights need not exist yet. A part's own hooks then stand around it and fire once per pass;
    hooks of modules inside it fire in both runs. Raises ValueError for a word that is none of
    these.
    """
    for part in _parts(model, policy):
        part.forward = partial(by, part.forward)


def _parts(model: nn.Module, policy: str) -> list[nn.Module]:
    blocks = dict(model.blocks.named_children())
    if policy == "none":
        return []
    if policy == "selective":
        cores = [block.attention.core for block in blocks.values()]
        # a layout's exchange around a core is not done twice
        return [core.core if isinstance(core, SwapHeadsForTokens) else core for core in cores]
    if policy == "full":
        return list(blocks.values())
    numbers = policy.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise ValueError(
            t(
                f"recompute policy {policy!r}: use none, selective, full, or block numbers like"
                " 0,2,5.",
                f"重计算策略 {policy!r} 无效：可用 none、selective、full，或层号，如 0,2,5。",
            )
        )
    wanted = {int(number) for number in numbers}
    return [block for number, block in blocks.items() if int(number) in wanted]


@contextmanager
def observe_recomputation(callback: Callable[[bool], None]) -> Iterator[None]:
    """Inside, `callback(True)` and `callback(False)` stand around every second run (not around the
    backward through it)."""
    _observers.append(callback)
    try:
        yield
    finally:
        _observers.remove(callback)


@contextmanager
def _announced() -> Iterator[None]:
    observers = tuple(_observers)
    for callback in observers:
        callback(True)
    try:
        yield
    finally:
        for callback in observers:
            callback(False)


class _Recomputed(torch.autograd.Function):
    """Forward without a graph; backward builds the graph, goes back through it and throws it
    away."""

    @staticmethod
    def forward(ctx: FunctionCtx, function: Function, stand_in: Tensor | None, *inputs: Any) -> Any:
        # an output that was not used has no gradient to go back from
        ctx.set_materialize_grads(False)
        ctx.function, ctx.circumstances = function, _Circumstances.of(inputs)
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)))
        ctx.others = [None if isinstance(x, Tensor) else (x,) for x in inputs]
        with _uncached_casts():
            return function(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        # else unasked gradients would land in parameters
        if not torch.autograd._is_checkpoint_valid():
            raise RuntimeError(
                t(
                    "checkpoint works with .backward() only, not with torch.autograd.grad or"
                    " backward(inputs=…).",
                    "checkpoint 只支持 .backward()，不支持 torch.autograd.grad 或"
                    " backward(inputs=…)。",
                )
            )
        saved, needed = iter(ctx.saved_tensors), ctx.needs_input_grad[2:]
        inputs = [other[0] if other else next(saved).detach() for other in ctx.others]
        for x, need in zip(inputs, needed, strict=True):
            if need:
                x.requires_grad_()
        with ctx.circumstances.again(), torch.enable_grad(), _announced():
            outputs = ctx.function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        # edges, not tensors: the outputs' own memory is free before the backward through them
        # begins
        pairs = [
            (get_gradient_edge(y), g)
            for y, g in zip(outputs, gradients, strict=True)
            if g is not None and y.requires_grad
        ]
        del outputs
        if pairs:
            torch.autograd.backward(*zip(*pairs, strict=True))
        return (
            None,
            None,
            *(x.grad if need else None for x, need in zip(inputs, needed, strict=True)),
        )


class _Circumstances(NamedTuple):
    """What a function's result depends on besides its inputs: the states of random generators, and
    autocast's settings."""

    cpu_generator: Tensor  # (5056,) uint8
    cuda_generators: dict[torch.device, Tensor]  # of the devices that inputs are on
    autocast: list[dict[str, Any]]

    @classmethod
    def of(cls, inputs: tuple[Any, ...]) -> _Circumstances:
        devices = {x.device for x in inputs if isinstance(x, Tensor)}
        kinds = sorted({"cpu", *(device.type for device in devices)})
        return cls(
            torch.get_rng_state(),
            {
                device: torch.cuda.get_rng_state(device)
                for device in devices
                if device.type == "cuda"
            },
            [
                dict(
                    device_type=kind,
                    dtype=torch.get_autocast_dtype(kind),
                    enabled=torch.is_autocast_enabled(kind),
                    cache_enabled=torch.is_autocast_cache_enabled(),
                )
                for kind in kinds
                if torch.amp.is_autocast_available(kind)
            ],
        )

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, everything is as it was; afterwards, as it is now."""
        devices = [device.index for device in self.cuda_generators]
        with torch.random.fork_rng(devices=devices), ExitStack() as stack:
            self._replay_random_numbers()
            for setting in self.autocast:
                stack.enter_context(torch.autocast(**setting))
            yield

    def _replay_random_numbers(self) -> None:
        torch.set_rng_state(self.cpu_generator)
        for device, state in self.cuda_generators.items():
            torch.cuda.set_rng_state(state, device)


@contextmanager
def _uncached_casts() -> Iterator[None]:
    """Autocast keeps no weight copies of a pass that saves nothing.

    They would live on to the end of the autocast region; and torch without the fix of
    pytorch/pytorch issue 158232 hands them, made without a graph, to the weight's next use in that
    region, whose gradient is then lost.
    """
    cached = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(cached)
