"""One optimizer step of plain data parallelism, for taking apart: the engine does the same for every layout (engine.py)."""

from __future__ import annotations

import torch
from torch import nn

from ..data.loader import StepBatch
from ..parallel.data_parallel import GradientSync
from ..parallel.pipeline import whole_model


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
    return whole_model(sync, len(batch.micro_batches)).run(sync, batch, sync.averaged_over / batch.global_tokens)
