"""`parallelize(model, config, mesh)`: the strategies of a configuration, applied to an ordinary model in visible order."""

from __future__ import annotations

from torch import nn

from ..config import TrainConfig
from .data_parallel import GradientSync, data_parallel
from .mesh import Mesh


def parallelize(model: nn.Module, config: TrainConfig, mesh: Mesh) -> GradientSync:
    """Make `model` take part in `config`'s layout; returns what keeps its gradients in step."""
    return data_parallel(model, mesh["dp"], gradient_sync=config.parallel.gradient_sync, bucket_bytes=config.parallel.bucket_bytes)
