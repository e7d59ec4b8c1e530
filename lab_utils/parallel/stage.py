"""A pipeline stage: some consecutive parts of the model. A rank without pipeline holds one stage,
the whole model.

A part is what runs between two points where the engine may act: the embedding, one block, or the
head with the loss. ZeRO-3 gathers and frees weights part by part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from ..config import TrainConfig
from ..data.loader import MicroBatch
from ..layout.stages import stage_layers, stages_of_rank


@dataclass
class Part:
    """`run(x, micro)`: the next activations from the last ones; the first part reads micro.tokens,
    the last gives the loss sum."""

    name: str
    run: Callable[[Tensor | None, MicroBatch], Tensor]


def keep_stages(model: nn.Module, config: TrainConfig, pp_rank: int) -> None:
    """Take out of `model` (on the meta device) what other pipeline ranks hold. Parameters keep
    their names."""
    p = config.parallel
    if p.pp == 1:
        return
    stages, here = p.pp * p.virtual_stages, stages_of_rank(pp_rank, p.pp, p.virtual_stages)
    layers = [layer for s in here for layer in stage_layers(config.model.layers, stages)[s]]
    model.blocks = nn.ModuleDict({str(layer): model.blocks[layer] for layer in layers})
    if 0 not in here:
        if hasattr(model, "position_embedding"):
            del model.position_embedding
        # a tied head's weight keeps the embedding's name
        if not (config.model.tied and stages - 1 in here):
            del model.token_embedding
    if stages - 1 not in here:
        del model.final_norm, model.head


def stage_parts(model: nn.Module, config: TrainConfig, pp_rank: int) -> dict[int, list[Part]]:
    """The parts of every stage on this rank, by stage number."""
    p = config.parallel
    stages = p.pp * p.virtual_stages
    blocks = dict(model.blocks.named_children())
    found = {}
    for stage in stages_of_rank(pp_rank, p.pp, p.virtual_stages):
        parts = [Part("embed", lambda _, micro: model.embed(micro.tokens))] if stage == 0 else []
        for layer in stage_layers(config.model.layers, stages)[stage]:
            parts.append(Part(f"blocks.{layer}", lambda x, _, block=blocks[str(layer)]: block(x)))
        if stage == stages - 1:
            parts.append(Part("head_loss", lambda x, micro: model.head_loss(x, micro.targets)[0]))
        found[stage] = parts
    return found
