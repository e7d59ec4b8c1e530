"""Optimizer states of a real run, by parameter: what AdamW and Muon keep after some steps, for
taking them apart."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ...config import TrainConfig
from ...engines.ours import engine_here
from ...launch import launch


class Moments(NamedTuple):
    """What AdamW keeps of one parameter after some steps, in the parameter's shape, and the
    gradient of the next batch."""

    first: Tensor
    second: Tensor
    gradient: Tensor


def adam_moments(config: TrainConfig) -> dict[str, Moments]:
    """Parameter name → its moments after `config.steps` steps of AdamW."""
    found = launch(_states, 1, config.replace(optimizer="adamw", lr=config.lr), threads=1)[0]
    return {
        name: Moments(state["exp_avg"], state["exp_avg_sq"], gradient)
        for name, (state, gradient) in found.items()
    }


def momenta(config: TrainConfig) -> dict[str, Tensor]:
    """Name → Muon's momentum of each matrix inside of the blocks after `config.steps` steps."""
    found = launch(_states, 1, config.replace(optimizer="muon"), threads=1)[0]
    return {name: state["moment"] for name, (state, _) in found.items() if "moment" in state}


def _states(config: TrainConfig) -> dict[str, tuple[dict[str, Tensor], Tensor]]:
    engine, loader = engine_here(config)
    for number in range(config.steps):
        engine.forward_backward(loader.batch(number))
        engine.update()
    engine.forward_backward(loader.batch(config.steps))
    state = {
        key: one for optimizer in engine.updates.optimizers for key, one in optimizer.state.items()
    }
    shapes = {name: p.shape for name, p in engine.model.named_parameters()}
    found = {}
    # in one process a shard is a parameter
    for shard, (parameter,) in zip(engine.optimizer_shards, engine.updates.parameters, strict=True):
        (piece,) = shard.pieces
        shape = shapes[piece.parameter]
        kept = {
            name: x.view(shape).clone() for name, x in state[parameter].items() if x.numel() > 1
        }
        found[piece.parameter] = kept, shard.gradient().detach().view(shape).clone()
    return found
