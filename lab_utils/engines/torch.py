"""torch's own DistributedDataParallel behind our GradientSync."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ..config import TrainConfig
from ..parallel.data_parallel import GradientSync
from ..parallel.mesh import Mesh


class DDPSync(GradientSync):
    """DDP does its work inside the backward pass; it divides by the number of ranks, so the loss is multiplied by it."""

    def __init__(self, model: nn.Module, mesh: Mesh, bucket_mib: float) -> None:
        super().__init__(model, mesh["dp"])
        self.averaged_over = self.axis.size
        self.model = DistributedDataParallel(model, process_group=self.axis.group, bucket_cap_mb=bucket_mib, gradient_as_bucket_view=True)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        with self.model.no_sync():
            yield


def parallelize(model: nn.Module, config: TrainConfig, mesh: Mesh) -> GradientSync:
    """`model` under torch's own data parallelism; on one rank: the identity."""
    if mesh["dp"].size == 1:
        return GradientSync(model, mesh["dp"])
    return DDPSync(model, mesh, config.parallel.bucket_mib)
