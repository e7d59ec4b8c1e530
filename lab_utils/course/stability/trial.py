"""Train one GPT in this process with a remedy for instability, and keep what its instruments say.

The engines have none of these remedies but clipping by norm: they are put around our GPT here, by
its attributes `core` and `loss`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...config import TrainConfig
from ...data.loader import Loader
from ...model import GPT, loss_sum_and_count
from .signal import one_thread

Z_WEIGHT = 1e-4  # of the z-loss: Chowdhery et al. 2022 (PaLM), section 5


class QKNorm(nn.Module):
    """Queries and keys of length √d before they meet, so that no attention logit exceeds √d (Henry
    et al. 2020; Dehghani et al. 2023). Theirs has a learned gain; this one has none."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core = core

    # (b, a, s, d) -> (b, a, s, d)
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        d = (q.shape[-1],)
        return self.core(F.rms_norm(q, d), F.rms_norm(k, d), v)


class Watched(nn.Module):
    """The same attention; `largest` is the largest of its logits in the last pass."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core, self.largest = core, 0.0

    # (b, a, s, d) -> (b, a, s, d)
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with torch.no_grad():
            logits = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            self.largest = logits.abs().max().item()
        return self.core(q, k, v)


def with_z_loss(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy, and a pull of log Z towards 0 (sum over tokens, count)."""
    loss, count = loss_sum_and_count(logits, targets)
    return loss + Z_WEIGHT * logits.float().logsumexp(-1).square().sum(), count


@dataclass
class Trial:
    """A value for each step: the cross-entropy in nats, the gradients' global norm before clipping,
    the largest attention logit, and the mean of |log Z|."""

    loss: list[float] = field(default_factory=list)
    norm: list[float] = field(default_factory=list)
    logit: list[float] = field(default_factory=list)
    log_z: list[float] = field(default_factory=list)


@one_thread
def trial(
    config: TrainConfig,
    *,
    warmup: int = 0,
    clip_value: float = 0.0,
    qk_norm: bool = False,
    z_loss: bool = False,
    groups: Callable[[GPT, float], list[dict[str, Any]]] | None = None,
) -> Trial:
    """Train for `config.steps` steps with its optimizer (adamw without decay, or sgd without
    momentum), rate and clip; `groups(model, lr)` may give parameters rates of their own."""
    model = GPT(config.model, config.seed, config.init)
    for block in model.blocks:
        core = block.attention.core
        block.attention.core = watched = Watched(core)
        if qk_norm:
            block.attention.core = QKNorm(watched)
    cores = [m for m in model.modules() if isinstance(m, Watched)]
    if z_loss:
        model.loss = with_z_loss
    parameters = groups(model, config.lr) if groups else [dict(params=list(model.parameters()))]
    kind = torch.optim.SGD if config.optimizer == "sgd" else _adamw
    optimizer, loader = kind(parameters, lr=config.lr), Loader(config)
    rates, found = [group["lr"] for group in optimizer.param_groups], Trial()
    for step in range(config.steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * min(1.0, (step + 1) / warmup) if warmup else rate
        micro = loader.batch(step).micro_batches[0]
        logits = model(micro.tokens)
        loss, count = model.loss(logits, micro.targets)
        optimizer.zero_grad()
        (loss / count).backward()
        _instruments(found, logits.detach(), micro.targets, cores)
        limit = config.clip or math.inf
        norm = nn.utils.clip_grad_norm_(model.parameters(), limit)
        if clip_value:
            nn.utils.clip_grad_value_(model.parameters(), clip_value)
        found.norm.append(norm.item())
        optimizer.step()
    return found


def _adamw(parameters: list, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=lr, betas=(0.9, 0.999), weight_decay=0.0, foreach=True)


def _instruments(found: Trial, logits: Tensor, targets: Tensor, cores: list[Watched]) -> None:
    loss, count = loss_sum_and_count(logits, targets)
    found.loss.append((loss / count).item())
    found.logit.append(max(core.largest for core in cores))
    found.log_z.append(logits.logsumexp(-1).abs().mean().item())
