"""What does the training, behind one configuration and one Report: our engine, and production
libraries to hold it against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config import ConfigError, TrainConfig

if TYPE_CHECKING:
    from ..parallel.mesh import Mesh
    from .engine import Engine


def make_engine(config: TrainConfig, name: str, mesh: Mesh) -> Engine:
    """The engine of that name, with the model in place on this rank's device."""
    if name == "ours":
        from .ours import OurEngine

        return OurEngine(config, mesh)
    if name == "torch":
        from .torch import TorchEngine

        return TorchEngine(config, mesh)
    if name == "deepspeed":
        from .deepspeed import DeepSpeedEngine

        return DeepSpeedEngine(config, mesh)
    raise ConfigError(name)
