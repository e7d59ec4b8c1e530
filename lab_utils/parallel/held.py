"""What a way of synchronising gradients holds, for the report of memory. Nothing here takes part in
a step."""

from __future__ import annotations

from functools import singledispatch

from torch import Tensor

from .data_parallel import BucketedSync
from .gradient_sync import GradientSync
from .zero import ShardedSync


@singledispatch
def held_tensors(sync: GradientSync) -> dict[str, list[Tensor]]:
    """The tensors behind the report's memory terms: "parameters", "gradients", and "buckets" beyond
    these."""
    parameters = list(sync.parameters.values())
    gradients = [p.grad for p in parameters if p.grad is not None]
    return {"parameters": parameters, "gradients": gradients, "buckets": []}


@held_tensors.register
def _(sync: BucketedSync) -> dict[str, list[Tensor]]:
    """A bucket counts as gradients from the start, though they come to lie in it one by one."""
    held = held_tensors.dispatch(GradientSync)(sync)
    return held | {"gradients": [*sync.buffers.values(), *held["gradients"]]}


@held_tensors.register
def _(sync: ShardedSync) -> dict[str, list[Tensor]]:
    gradients = [g for u in sync.units for g in (u.gradient, u.shard_gradient) if g is not None]
    return {
        "parameters": [u.shard if sync.stage == 3 else u.whole for u in sync.units],
        "gradients": gradients,
        "buckets": [],
    }


@singledispatch
def weight_tensors(sync: GradientSync) -> list[Tensor]:
    """The tensors whose storages hold weights, so are no activations when autograd saves them."""
    return list(sync.parameters.values())


@weight_tensors.register
def _(sync: ShardedSync) -> list[Tensor]:
    return [unit.whole for unit in sync.units]
