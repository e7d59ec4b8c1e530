"""The parts of the model on a rank: what runs between two points where the engine may act, as in
parallel/stage.py."""

from __future__ import annotations

from functools import lru_cache

from ...config import TrainConfig
from ...layout.stages import stage_layers, stages_of_rank


def parts_of_stages(config: TrainConfig, pp_rank: int) -> dict[int, list[str]]:
    """The parts of each of a rank's stages: "embed", "blocks.3", "head_loss", in forward order."""
    p = config.parallel
    return {
        stage: list(parts)
        for stage, parts in _parts(config.model.layers, p.pp, p.virtual_stages, pp_rank)
    }


@lru_cache(maxsize=4096)
def _parts(
    layers: int, pp: int, virtual_stages: int, pp_rank: int
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    stages = pp * virtual_stages
    split = stage_layers(layers, stages)
    found = []
    for stage in stages_of_rank(pp_rank, pp, virtual_stages):
        blocks = [f"blocks.{layer}" for layer in split[stage]]
        found.append(
            (stage, (*["embed"] * (stage == 0), *blocks, *["head_loss"] * (stage == stages - 1)))
        )
    return tuple(found)
