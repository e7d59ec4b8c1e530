"""Gradients that are only summands on a tensor-parallel rank: of norms and biases under sequence
parallelism, which every rank holds and for which each has seen a share of the tokens."""

from __future__ import annotations

from ..config import TrainConfig
from .program.rank_shape import held_placements, held_units


def summand_numels(
    config: TrainConfig, shown: tuple[str, ...], blocks: int, tp_rank: int
) -> list[int]:
    """Elements whose gradients sequence parallelism leaves as summands, among those that each data
    rank (dp × cp) owns."""
    p = config.parallel
    here = held_placements(config, shown, tp_rank)
    if p.zero == 0 or not p.sequence_parallel:
        return [
            sum(
                place.numel * (blocks if name.startswith("blocks.") else 1)
                for name, place in here.items()
                if "tp" in place.sum_over
            )
        ] * p.replicas
    found = [0] * p.replicas
    for unit in held_units(config, shown, tp_rank):
        each, times = unit.numel // p.replicas, blocks if unit.name.startswith("blocks.") else 1
        for one in unit.slices:
            if "tp" in here[one.name].sum_over:
                for rank in range(one.offset // each, -(-(one.offset + one.numel) // each)):
                    found[rank] += times * (
                        min(one.offset + one.numel, (rank + 1) * each)
                        - max(one.offset, rank * each)
                    )
    return found
