"""What one training run is: frozen dataclasses that validate themselves. No torch in here.

`TrainConfig` is the noun of the whole package: `estimate(config)` predicts it, `train(config)` runs
it, and both return a Report. A field's name is the command line's flag with underscores.
"""

from .cluster import Cluster
from .flag import ConfigError, ContextParallel, Schedule, divisors
from .model import ModelConfig
from .parallel import ParallelConfig
from .train import TrainConfig, flag_fields

__all__ = [
    "Cluster",
    "ConfigError",
    "ContextParallel",
    "ModelConfig",
    "ParallelConfig",
    "Schedule",
    "TrainConfig",
    "divisors",
    "flag_fields",
]
