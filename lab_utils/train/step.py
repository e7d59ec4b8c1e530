"""One optimizer step: forward and backward per micro-batch, gradients made equal, clipped, applied."""

from __future__ import annotations

import torch
from torch import nn

from ..data.loader import MicroBatch, StepBatch
from ..parallel.data_parallel import GradientSync


def train_step(sync: GradientSync, optimizer: torch.optim.Optimizer, batch: StepBatch, clip: float = 0.0) -> float:
    """Train on this rank's share of one global batch; returns the share's loss sum (nats).

    The loss is divided by the *global* batch's token count, so gradients summed over ranks and micro-batches are those
    of the global mean. With accumulation only the last micro-batch communicates.
    """
    loss = forward_backward(sync, batch)
    sync.finish()
    if clip > 0:
        nn.utils.clip_grad_norm_(list(sync.parameters.values()), clip)
    optimizer.step()
    return loss


def forward_backward(sync: GradientSync, batch: StepBatch) -> float:
    """Gradients of this rank's share, being synchronised; `sync.finish()` waits for them. Returns the share's loss sum."""
    sync.zero_grad()
    *earlier, last = batch.micro_batches
    total = 0.0
    with sync.no_sync():
        for micro in earlier:
            total += _one(sync, micro, batch.global_tokens)
    return total + _one(sync, last, batch.global_tokens)


def _one(sync: GradientSync, micro: MicroBatch, global_tokens: int) -> float:
    loss_sum, _ = sync.model(micro.tokens, micro.targets)
    (loss_sum * (sync.averaged_over / global_tokens)).backward()
    return loss_sum.item()
