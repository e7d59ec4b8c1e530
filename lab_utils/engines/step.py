"""One optimizer step of plain data parallelism, for taking apart: the engine does the same for
every layout (ours.py) and takes nothing from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import nn

from ..config import TrainConfig
from ..data.loader import Loader, StepBatch
from ..model import GPT
from ..parallel.comm import Axis
from ..parallel.gradient_sync import GradientSync
from ..parallel.mesh import Mesh
from ..parallel.pipeline import whole_model
from .optimizer import make_optimizer


class Step(NamedTuple):
    """A step that this rank has just done: `loss` is the mean over its own share, in nats."""

    mesh: Mesh
    model: nn.Module
    loss: float


def steps_of_rank(
    config: TrainConfig, make_sync: Callable[[nn.Module, Axis], GradientSync], seed: int = 0
) -> Iterator[Step]:
    """Train on this rank for `config.steps` steps, with gradients synchronised as
    `make_sync(model, axis)` says; the ledger holds the calls of one step at a time."""
    mesh = Mesh(config.parallel)
    model = GPT(config.model, seed, config.init)
    sync = make_sync(model, mesh["dp"])
    optimizer, loader = make_optimizer(model.parameters(), config), Loader(config, mesh["dp"].rank)
    for number in range(config.steps):
        mesh.ledger.clear()
        batch = loader.batch(number)
        loss = train_step(sync, optimizer, batch)
        yield Step(mesh, model, loss * mesh["dp"].size / batch.global_tokens)


def train_step(
    sync: GradientSync, optimizer: torch.optim.Optimizer, batch: StepBatch, clip: float = 0.0
) -> float:
    """Train on this rank's share of one global batch; returns the share's loss sum (nats).

    The loss is divided by the *global* batch's token count, so gradients summed over ranks and
    micro-batches are those of the global mean. With accumulation only the last micro-batch
    communicates.
    """
    loss = forward_backward(sync, batch)
    sync.finish()
    if clip > 0:
        nn.utils.clip_grad_norm_(list(sync.parameters.values()), clip)
    optimizer.step()
    return loss


def forward_backward(sync: GradientSync, batch: StepBatch) -> float:
    """Gradients of this rank's share, being synchronised; `sync.finish()` waits for them. Returns
    the share's loss sum."""
    sync.zero_grad()
    return whole_model(sync, len(batch.micro_batches)).run(
        sync, batch, sync.averaged_over / batch.global_tokens
    )
