"""The optimizers that the engines run, made from the configuration."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..optimizers.adafactor import Adafactor
from ..optimizers.adam8bit import Adam8bit
from ..optimizers.lion import Lion
from ..optimizers.muon import Muon

BETAS = (0.9, 0.95)


def make_optimizer(
    parameters: Iterable[nn.Parameter],
    config: TrainConfig,
    rule: str | None = None,
    **given: object,
) -> torch.optim.Optimizer:
    """The optimizer of a configuration, or of one `rule` of it (layout/optimizer_runs.py), over
    these parameters; there may be none.

    SGD has momentum 0.9, the Adams betas 0.9 and 0.95; torch's are fused into one kernel. Weight
    decay is not theirs: `decay` does it, by name. `given`: what a rule needs of other ranks.
    """
    group = list(parameters)
    if not (group and isinstance(group[0], dict)):  # there may be groups
        group = [{"params": group}]  # unlike a bare list, this may be empty
    match rule or config.optimizer:
        case "sgd":
            return torch.optim.SGD(group, lr=config.lr, momentum=0.9, fused=True)
        case "adam" | "adamw":
            return torch.optim.AdamW(group, lr=config.lr, betas=BETAS, weight_decay=0.0, fused=True)
        case "lion":
            return Lion(group, lr=config.lr)
        case "adam8bit":
            return Adam8bit(group, lr=config.lr, betas=BETAS, **given)
        case "adafactor":
            return Adafactor(group, lr=config.lr, **given)
        case "muon":
            return Muon(group, lr=config.lr, **given)
    raise KeyError(rule)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step; a group may have a share of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group.get("scale", 1.0)


def decay(weights: list[Tensor], gradients: list[Tensor], config: TrainConfig, rate: float) -> None:
    """Weight decay, before the step: decoupled, every weight loses rate · decay of itself
    (Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization"); as L2 (sgd, adam) that
    much of the weight joins its gradient, and goes through the moments."""
    if not weights or not config.weight_decay:
        return
    if config.optimizer in ("sgd", "adam"):
        torch._foreach_add_(gradients, weights, alpha=config.weight_decay)
    else:
        torch._foreach_mul_(weights, 1 - rate * config.weight_decay)
