"""An engine is what the training loop drives: gradients of one batch, then one update. Ours is
here, others in `engines/`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..data.loader import Loader, StepBatch
from ..model import GPT
from ..parallel.held import held_tensors, weight_tensors
from ..parallel.mesh import Mesh
from ..parallel.optimizer_shard import all_reduce_shared
from ..parallel.parallelize import parallelize
from .fragments import Fragment
from .loss_scaler import LossScaler
from .recompute import recompute
from .update import Update


class Engine:
    """One rank's side of a run. `model`: the module whose parameters are not activations; `scaler`:
    under fp16, else None.

    `shows_all_tensors`: what it allocates can be seen by a dispatch mode (a library may keep
    tensors out of sight).
    """

    model: nn.Module
    scaler: LossScaler | None = None
    shows_all_tensors = False

    def forward_backward(self, batch: StepBatch) -> float:
        """Gradients of the global batch, summed over all ranks, not yet clipped.

        Returns the loss sum of this rank's share, 0 on ranks that do not compute the loss or whose
        tp neighbour reports it.
        """
        raise NotImplementedError

    def update(self) -> bool:
        """Clip and apply the gradients of `forward_backward`; False if the step was skipped (fp16
        overflow)."""
        raise NotImplementedError

    def fragments(self) -> list[Fragment]:
        """After `forward_backward`: what this rank has of the whole gradient, without what another
        rank brings too."""
        raise NotImplementedError

    def held(self) -> dict[str, list[Tensor] | None]:
        """The live tensors behind the report's "parameters", "gradients", "optimizer", "buckets";
        None: out of sight."""
        raise NotImplementedError

    def weights(self) -> list[Tensor]:
        """Tensors beside the model's parameters whose storages hold weights: saved for backward,
        they are no activations."""
        return []

    def counters(self) -> list[AbstractContextManager]:
        """Contexts that count the traffic of a library that calls torch.distributed itself, from
        outside."""
        return []


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
        self.change = Update(self.optimizer_shards, self.layout, config, mesh, self.scaler)

    def forward_backward(self, batch: StepBatch) -> float:
        sync = self.layout.sync
        sync.zero_grad()
        scale = self.scaler.scale if self.scaler else 1.0
        loss_sum = self.layout.pipeline.run(sync, batch, scale / batch.global_tokens)
        sync.finish()
        all_reduce_shared(self.optimizer_shards, self.layout.placements, self.mesh)
        return loss_sum if self.mesh["tp"].rank == 0 else 0.0

    def update(self) -> bool:
        applied = self.change()
        if applied:
            self.layout.sync.gather_parameters()
        return applied

    def fragments(self) -> list[Fragment]:
        scale, sync, found = self.scaler.scale if self.scaler else 1.0, self.layout.sync, []
        if not sync.sharded and self.mesh.data.rank > 0:
            return []
        for o in self.optimizer_shards:
            for piece in o.pieces:
                place = self.layout.placements[piece.parameter]
                if not place.copy and (place.dim is not None or self.mesh["tp"].rank == 0):
                    values = (
                        o.gradient_of(piece)
                        .detach()
                        .float()
                        .div(scale)
                        .cpu()
                        .numpy()
                        .astype(np.float32, copy=True)
                    )
                    found.append(Fragment(place, piece.offset, values))
        return found

    def weights(self) -> list[Tensor]:
        return weight_tensors(self.layout.sync)

    def held(self) -> dict[str, Any]:
        return held_tensors(self.layout.sync) | {
            "optimizer": self.change.states(),
            "offloaded": self.change.offloaded(),
        }


def engine_here(config: TrainConfig) -> tuple[OurEngine, Loader]:
    """This rank's engine and its share of the text, for taking a step apart."""
    mesh = Mesh(config.parallel)
    return OurEngine(config, mesh), loader_here(config, mesh)


def loader_here(config: TrainConfig, mesh: Mesh) -> Loader:
    """This rank's share of the text."""
    return Loader(config, mesh["dp"].rank, device=mesh.device, cp_rank=mesh["cp"].rank)
