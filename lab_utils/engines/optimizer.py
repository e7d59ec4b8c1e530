"""The optimizers that the engine runs, made from the configuration."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from ..config import TrainConfig


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: TrainConfig
) -> torch.optim.Optimizer:
    """AdamW (Loshchilov and Hutter 2019; betas 0.9, 0.95, no decay) or SGD with momentum 0.9, fused
    into one kernel."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(list(parameters), lr=config.lr, momentum=0.9, fused=True)
    return torch.optim.AdamW(
        list(parameters), lr=config.lr, betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )
