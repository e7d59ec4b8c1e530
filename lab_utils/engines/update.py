"""The update: gradients judged, clipped by the norm of the whole model, applied to what this rank
owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..parallel.mesh import Mesh
from ..parallel.optimizer_shard import OptimizerShard, sum_of_squares
from ..parallel.parallelize import Layout, local_values
from .loss_scaler import LossScaler
from .optimizer import make_optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator


class Update:
    """Applies optimizer steps. Where weights are not fp32, or live elsewhere than the
    optimizer (`--offload`), it keeps fp32 master weights and writes the rounded result back."""

    def __init__(
        self,
        shards: list[OptimizerShard],
        layout: Layout,
        config: TrainConfig,
        mesh: Mesh,
        scaler: LossScaler | None,
    ) -> None:
        self.shards, self.layout, self.config, self.mesh, self.scaler = (
            shards,
            layout,
            config,
            mesh,
            scaler,
        )
        self.offload = config.parallel.offload
        self.separate = self.offload or config.precision == "bf16-pure"
        # where nothing is kept apart they are the model's own memory: the optimizer writes there
        self.weights = [
            nn.Parameter(self._master(o) if self.separate else o.weight.detach()) for o in shards
        ]
        self.optimizer = make_optimizer(self.weights, config)

    def _master(self, o: OptimizerShard) -> Tensor:
        """fp32, drawn anew, because the weights that the model holds may be rounded already."""
        master = torch.zeros(o.weight.shape, dtype=torch.float32)
        for piece in o.pieces:
            values = local_values(self.layout.placements[piece.parameter], self.config).reshape(-1)
            master.view(-1)[piece.first : piece.first + piece.numel] = values[
                piece.offset : piece.offset + piece.numel
            ]
        return master if self.offload else master.to(self.mesh.device)

    def apply(self) -> bool:
        """One optimizer step. False if the gradients overflowed on any rank: then nothing is
        applied anywhere."""
        factor = 1.0 / self.scaler.scale if self.scaler else 1.0
        if self.scaler or self.config.clip > 0:
            norm = (
                sum_of_squares(
                    self.shards, self.layout.placements, self.mesh, self.layout.sync.sharded
                )
                .sqrt()
                .item()
                * factor
            )
            if self.scaler:
                overflow = not norm < float("inf")  # NaN too
                self.scaler.update(overflow)
                if overflow:
                    return False
            if self.config.clip > 0:
                factor *= min(1.0, self.config.clip / (norm + 1e-6))
        self._apply(factor)
        return True

    def _apply(self, factor: float) -> None:
        for weight, o in zip(self.weights, self.shards, strict=True):
            weight.grad = o.gradient().to(weight.device, weight.dtype)
        if factor != 1.0:
            torch._foreach_mul_([weight.grad for weight in self.weights], factor)
        self.optimizer.step()
        if self.separate:
            with torch.no_grad():
                for weight, o in zip(self.weights, self.shards, strict=True):
                    o.weight.copy_(weight)
        for weight in self.weights:
            weight.grad = None

    def _tensors(self) -> Iterator[Tensor]:
        for state in self.optimizer.state.values():
            yield from (x for x in state.values() if isinstance(x, Tensor))
        if self.separate:
            yield from self.weights

    def states(self) -> list[Tensor]:
        """Optimizer states and master weights beside the model."""
        return [] if self.offload else list(self._tensors())

    def offloaded(self) -> list[Tensor]:
        """The same where they live in the host's memory."""
        return list(self._tensors()) if self.offload else []
