"""Data parallelism by torch: DistributedDataParallel, ZeroRedundancyOptimizer, and FSDP2 in its
three forms."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from ..config import TrainConfig
from ..model import GPT
from .optimizer import make_optimizer
from .torch_tensor import local


def parallelize_data(model: GPT, config: TrainConfig, mesh: DeviceMesh | None) -> nn.Module:
    """`model` (whole or a pipeline stage) under what --zero asks for, over the one axis of `mesh`;
    None: left as it is.

    ZeRO 0: DDP; in products `replicate`, because DDP takes neither DTensors nor a pipeline that
    puts off the gradients of weights. ZeRO 1: DDP, and the optimizer is sharded. ZeRO 2 and 3:
    FSDP2 on each block and on the root, which keeps gathered weights from forward to backward, or
    frees them.
    """
    p = config.parallel
    if mesh is None:
        return model
    if uses_ddp(config):
        return DistributedDataParallel(
            model,
            process_group=mesh.get_group(),
            bucket_cap_mb=p.bucket_mib,
            gradient_as_bucket_view=True,
        )
    if p.zero == 0:
        # torch 2.13 has it in no public module yet
        from torch.distributed._composable.replicate_with_fsdp import replicate

        wrap = partial(replicate, mesh=mesh, mp_policy=_precision(config))
    else:
        wrap = partial(
            fully_shard, mesh=mesh, mp_policy=_precision(config), reshard_after_forward=p.zero == 3
        )
    for block in model.blocks.children():
        wrap(block)
    return wrap(model)


def uses_ddp(config: TrainConfig) -> bool:
    """Whether a configuration with more than one dp rank runs under DistributedDataParallel."""
    p = config.parallel
    return p.zero <= 1 and p.tp == p.pp == 1


def _precision(config: TrainConfig) -> MixedPrecisionPolicy:
    """bf16: FSDP2's own way, which gathers weights as bf16 and sums gradients in fp32; autocast
    would gather fp32."""
    if config.precision == "bf16":
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return MixedPrecisionPolicy()


def accumulating(module: nn.Module, last: bool, zero: int) -> AbstractContextManager:
    """Context of one micro-batch's forward and backward pass; gradients are only summed over ranks
    in the last one's.

    FSDP2 then keeps whole gradients until the last, and under ZeRO 2 its gathered weights, too.
    """
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(last)
        if zero == 2:
            module.set_reshard_after_backward(last)
    elif isinstance(module, DistributedDataParallel) and not last:
        return module.no_sync()
    return nullcontext()


def gathered_weights(module: nn.Module) -> list[Tensor]:
    """The tensors into which FSDP2 gathers weights; it keeps the same ones, full or empty, for the
    whole run. All ranks call this."""
    found = []
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.unshard()
            found += [local(parameter) for parameter in part.parameters()]
            part.reshard()
    return found


def optimizer_of(
    parameters: list[nn.Parameter], config: TrainConfig, mesh: DeviceMesh | None
) -> torch.optim.Optimizer:
    """Our optimizer over what this rank holds; with ZeRO 1 torch's, which gives each rank whole
    parameters to update."""
    if config.parallel.zero == 1 and mesh is not None:
        from torch.distributed.optim import ZeroRedundancyOptimizer  # 0.2 s that the others save

        return ZeroRedundancyOptimizer(
            parameters, partial(make_optimizer, config=config), process_group=mesh.get_group()
        )
    optimizer = make_optimizer(parameters, config)
    if config.optimizer == "sgd" and any(
        isinstance(parameter, DTensor) for parameter in parameters
    ):
        for group in optimizer.param_groups:  # torch 2.13 has no fused SGD for DTensors
            group.update(fused=False, foreach=True)
    return optimizer
