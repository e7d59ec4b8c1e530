"""torch's own parallelism behind our Engine: DDP, ZeRO, FSDP2, DTensor and pipelining, composed as
torchtitan does.

Order of composition: the stages are cut, each is shared out by DTensor over tp, then recomputed,
then sharded or replicated over dp; the pipeline runs what comes out (Liang et al. 2024,
"TorchTitan", section 2).
"""

from __future__ import annotations

import logging
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from ..config import TrainConfig
from ..config.lr_schedule import learning_rate
from ..data.loader import StepBatch
from ..layout.placement import Placement, placements
from ..layout.stages import stages_of_rank
from ..measure.traffic import OutsideCounter
from ..parallel.mesh import AXES, Mesh
from ..parallel.recompute import recompute, torch_checkpoint
from .engine import Engine
from .fragments import Fragment
from .optimizer import set_rate
from .torch_data import accumulating, gathered_weights, optimizer_of, parallelize_data, uses_ddp
from .torch_pipeline import Stage, TorchPipeline
from .torch_tensor import local, loss_parallel, parallelize_tensors, reduce_partial_gradients


class TorchEngine(Engine):
    """One rank's side of a run by torch. Its libraries divide gradients by dp, so the loss is
    multiplied by it."""

    def __init__(self, config: TrainConfig, mesh: Mesh) -> None:
        _silence()
        p, axes = config.parallel, device_meshes(mesh)
        self.config, self.mesh = config, mesh
        stages = {
            number: Stage(config, number, mesh.device)
            for number in stages_of_rank(mesh["pp"].rank, p.pp, p.virtual_stages)
        }
        self.modules: dict[int, nn.Module] = {}
        for number, stage in stages.items():
            if "tp" in axes:
                parallelize_tensors(stage, axes["tp"], p.sequence_parallel)
            recompute(stage, config.recompute, by=torch_checkpoint)
            own_precision = "dp" in axes and not uses_ddp(config)
            stage.autocast = stage.autocast and not own_precision
            self.modules[number] = parallelize_data(stage, config, axes.get("dp"))
        self.named = {
            name: parameter
            for stage in stages.values()
            for name, parameter in stage.named_parameters()
        }
        self.parameters = list(self.named.values())
        here = placements(config.model, p, mesh["pp"].rank, mesh["tp"].rank).values()
        self.counter = OutsideCounter(
            mesh, whole={place.shape for place in here if "tp" in place.sum_over}
        )
        self.optimizer, self.updates = optimizer_of(self.parameters, config, axes.get("dp")), 0
        self.model = nn.ModuleList(stages.values())
        boundary = torch.bfloat16 if config.precision == "bf16" and "dp" in axes else torch.float32
        self.pipeline = (
            TorchPipeline(self.modules, config, mesh["pp"], mesh.device, boundary)
            if p.pp > 1
            else None
        )

    def forward_backward(self, batch: StepBatch) -> float:
        for parameter in self.parameters:
            parameter.grad = None
        factor = self.mesh["dp"].size / batch.global_tokens
        with loss_parallel() if self.mesh["tp"].size > 1 else nullcontext():
            loss_sum = (
                self.pipeline.run(batch, factor)
                if self.pipeline
                else self._one_by_one(batch, factor)
            )
        reduce_partial_gradients(self.parameters)
        return loss_sum if self.mesh["tp"].rank == 0 else 0.0

    def _one_by_one(self, batch: StepBatch, factor: float) -> float:
        (module,), total = self.modules.values(), 0.0
        for i, micro in enumerate(batch.micro_batches):
            with accumulating(
                module, last=i == len(batch.micro_batches) - 1, zero=self.config.parallel.zero
            ):
                loss, _ = module(micro.tokens, micro.targets)
                (loss * factor).backward()
            total += loss.item()
        return total

    def update(self) -> bool:
        if self.config.clip > 0:
            self._clip()
        set_rate(self.optimizer, learning_rate(self.config, self.updates))
        self.optimizer.step()
        self.updates += 1
        return True

    def _clip(self) -> None:
        """By the norm of the whole model's gradient: torch's functions see the dp and tp axes, the
        pp axis is added."""
        with self.counter.meaning("control"):
            norm = nn.utils.get_total_norm([p.grad for p in self.parameters])
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
            if self.pipeline:
                norm = norm.square()
                dist.all_reduce(norm, group=self.mesh["pp"].group)
                norm = norm.sqrt()
        nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip, norm)

    def fragments(self) -> list[Fragment]:
        """DTensors gather themselves, which takes all ranks; then the first rank of each stage
        brings whole gradients."""
        found = []
        for name, parameter in self.named.items():
            gradient = (
                parameter.grad.full_tensor()
                if isinstance(parameter.grad, DTensor)
                else parameter.grad
            )
            if self.mesh["dp"].rank == self.mesh["tp"].rank == 0:
                found.append(
                    Fragment(
                        Placement(name, tuple(gradient.shape)),
                        0,
                        gradient.detach().float().cpu().numpy().astype(np.float32, copy=True),
                    )
                )
        return found

    def held(self) -> dict[str, list[Tensor] | None]:
        """What this rank holds of each; buffers and gathered weights stay inside the library."""
        # of ZeroRedundancyOptimizer: this rank's own
        optimizer = getattr(self.optimizer, "optim", self.optimizer)
        states = [
            local(x)
            for state in optimizer.state.values()
            for x in state.values()
            if isinstance(x, Tensor)
        ]
        gradients = [local(p.grad) for p in self.parameters if p.grad is not None]
        return {
            "parameters": [local(p) for p in self.parameters],
            "gradients": gradients,
            "optimizer": states,
            "buckets": None,
        }

    def weights(self) -> list[Tensor]:
        """Behind the DTensors, and the room into which FSDP2 gathers. All ranks call this."""
        return [local(p) for p in self.parameters] + [
            weight for module in self.modules.values() for weight in gathered_weights(module)
        ]

    def counters(self) -> list[AbstractContextManager]:
        return [self.counter]


def _silence() -> None:
    """What torch would tell a learner about its own inner workings, once per rank."""
    # gathers over tp and dp in turn
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    # true of the head's logits; nobody changes them in place
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")


def device_meshes(mesh: Mesh) -> dict[str, DeviceMesh]:
    """torch's view of our axes that have more than one rank, as parts of one mesh, on our process
    groups."""
    wide: list[str] = [name for name in AXES if mesh[name].size > 1]
    if not wide:
        return {}
    grid: Any = torch.arange(dist.get_world_size()).view([mesh[name].size for name in wide])
    groups = [mesh[name].group for name in wide]
    whole = DeviceMesh.from_group(
        groups if len(wide) > 1 else groups[0], mesh.device.type, grid, mesh_dim_names=tuple(wide)
    )
    return {name: whole[name] for name in wide}
