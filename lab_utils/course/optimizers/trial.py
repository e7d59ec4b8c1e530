"""Train one GPT with the engine in a process of its own, and judge it on sequences that no step has
seen."""

from __future__ import annotations

import time
from typing import NamedTuple

import torch

from ...config import TrainConfig
from ...data.loader import Loader
from ...engines.ours import OurEngine, engine_here
from ...launch import launch
from ...layout.optimizer_runs import decays

UNSEEN = 2000, 16  # the first step whose batch is held out, and how many; all in the first epoch


class Trial(NamedTuple):
    """`loss`: of every step, before its update, in nats a token; `unseen`: after the last update,
    on held-out sequences; `size`: root mean square of the weights that decay, at the end;
    `seconds`: of one core, whatever else the machine does."""

    loss: list[float]
    unseen: float
    size: float
    seconds: float


def trial(config: TrainConfig, repeat: int = 0, until: int | None = None) -> Trial:
    """Train on one rank; with `repeat` the first so many batches come round again and again, else
    every sequence is met once. `until`: stop after so many of the steps."""
    return launch(_on_rank, 1, config, repeat, until or config.steps, threads=1)[0]


def _on_rank(config: TrainConfig, repeat: int, until: int) -> Trial:
    began = time.process_time()
    engine, loader = engine_here(config)
    losses = [_step(engine, loader, s % repeat if repeat else s) for s in range(until)]
    named = engine.model.named_parameters()
    decayed = torch.cat([p.detach().reshape(-1) for name, p in named if decays(name)])
    size, unseen = decayed.square().mean().sqrt().item(), _unseen(engine, loader)
    return Trial(losses, unseen, size, time.process_time() - began)


def _step(engine: OurEngine, loader: Loader, number: int) -> float:
    batch = loader.batch(number)
    loss = engine.forward_backward(batch)
    engine.update()
    return loss / batch.global_tokens


@torch.no_grad()
def _unseen(engine: OurEngine, loader: Loader) -> float:
    first, many = UNSEEN
    losses, counts = 0.0, 0
    for number in range(first, first + many):
        for micro in loader.batch(number).micro_batches:
            loss, count = engine.model(micro.tokens, micro.targets)
            losses, counts = losses + loss.item(), counts + int(count)
    return losses / counts
