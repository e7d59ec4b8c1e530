"""Our engine: the layouts of `parallel/` behind the steps that every engine has.

One step, of which train/loop.py calls both halves, and where to read it: `forward_backward` runs
the model's parts in the pipeline's order (parallel/pipeline.py; without a pipeline, one after the
other), and hooks tell `layout.sync` of each gradient. Under ZeRO-3 the parts were wrapped when the
layout was made, so that their weights are here when they run: parallel/zero.py says when, in the
order of layout/zero_events.py, parallel/flat_unit.py does it to a unit's buffers, and
parallel/comm.py sends and counts. `update` clips by the whole model's norm and lets the optimizer
write into what this rank owns, under ZeRO its shard of each unit; fp32 masters, where there are
any, are copied there (update.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..config import TrainConfig
from ..data.loader import Loader, StepBatch
from ..model import GPT
from ..parallel.held import held_tensors, weight_tensors
from ..parallel.mesh import Mesh
from ..parallel.optimizer_shard import OptimizerShard, all_reduce_shared
from ..parallel.parallelize import parallelize
from ..parallel.recompute import recompute
from .engine import Engine
from .fragments import Fragment
from .loss_scaler import LossScaler
from .update import Update


class OurEngine(Engine):
    """The layouts of `parallel/`, in any precision and with any recomputation."""

    shows_all_tensors = True

    def __init__(self, config: TrainConfig, mesh: Mesh) -> None:
        with torch.device("meta"):
            self.model = GPT(config.model)
        self.mesh, self.config, self.layout = mesh, config, parallelize(self.model, config, mesh)
        # what a layout has put in place of a module is what runs again
        recompute(self.model, config.recompute)
        self.scaler = (
            LossScaler(config.loss_scale, config.loss_scale_window)
            if config.precision == "fp16"
            else None
        )
        self.optimizer_shards = self.layout.sync.optimizer_shards()
        self.updates = Update(self.optimizer_shards, self.layout, config, mesh, self.scaler)

    def forward_backward(self, batch: StepBatch) -> float:
        sync = self.layout.sync
        sync.zero_grad()
        scale = self.scaler.scale if self.scaler else 1.0
        loss_sum = self.layout.pipeline.run(sync, batch, scale / batch.global_tokens)
        sync.finish()
        all_reduce_shared(self.optimizer_shards, self.layout.placements, self.mesh)
        return loss_sum if self.mesh["tp"].rank == 0 else 0.0

    def update(self) -> bool:
        applied = self.updates.apply()
        if applied:
            self.layout.sync.gather_parameters()
        return applied

    def on_host(self) -> bool:
        return self.updates.on_host

    def fragments(self) -> list[Fragment]:
        scale = self.scaler.scale if self.scaler else 1.0
        return self._brought(lambda o: o.gradient().detach().float().div(scale))

    def weight_fragments(self) -> list[Fragment]:
        """What this rank has of the model's weights, without what another rank brings too; fp32
        masters where there are any."""
        masters = dict(zip(map(id, self.optimizer_shards), self.updates.weights, strict=True))
        return self._brought(lambda o: masters[id(o)].detach())

    def _brought(self, tensor_of: Callable[[OptimizerShard], Tensor]) -> list[Fragment]:
        found, tp = [], self.mesh["tp"]
        if not self.layout.sync.sharded and self.mesh.data.rank > 0:
            return []
        for o in self.optimizer_shards:
            values = tensor_of(o).view(-1).cpu().numpy().astype(np.float32, copy=True)
            for piece in o.pieces:
                place = self.layout.placements[piece.parameter]
                if not place.copy and (place.dim is not None or tp.rank == 0):
                    own = values[piece.first : piece.first + piece.numel]
                    found.append(Fragment(place, piece.offset, own))
        return found

    def weights(self) -> list[Tensor]:
        return weight_tensors(self.layout.sync)

    def held(self) -> dict[str, Any]:
        return held_tensors(self.layout.sync) | {
            "optimizer": self.updates.states(),
            "offloaded": self.updates.offloaded(),
        }


def engine_here(config: TrainConfig) -> tuple[OurEngine, Loader]:
    """This rank's engine and its share of the text, for taking a step apart."""
    mesh = Mesh(config.parallel)
    return OurEngine(config, mesh), loader_here(config, mesh)


def loader_here(config: TrainConfig, mesh: Mesh) -> Loader:
    """This rank's share of the text."""
    return Loader(config, mesh["dp"].rank, device=mesh.device, cp_rank=mesh["cp"].rank)
