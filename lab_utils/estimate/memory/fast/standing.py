"""What a rank holds all through a step, from the parts of the model that it runs; blocks are
counted, not listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ....config import ModelConfig, ParallelConfig, TrainConfig
from ....layout.placement import Placement
from ...program.conventions import CONVENTIONS, Collectives
from ...program.rank_shape import held_placements, held_units
from ..exact.sync import has_buckets, in_buckets, small_enough


@dataclass(frozen=True)
class Standing:
    """Bytes that a rank holds all through a step, and those of the step before's gradients that die
    at its start (`dying`). The rest is in elements: what the optimizer owns, what sequence
    parallelism and pipeline stages add up at the end."""

    parameters: int
    kept_gradients: int
    dying: int
    arriving: int  # what all-gathers of the step before still hold
    owned: int
    partial: int
    shared: tuple[int, ...]


def standing(
    config: TrainConfig, parts: Mapping[int, list[str]], tp_rank: int, convention: str = "cpu"
) -> Standing:
    """What the rank that runs `parts` holds all along."""
    p, width, rules = (
        config.parallel,
        2 if config.precision == "bf16-pure" else 4,
        CONVENTIONS[convention],
    )
    grown = rules.gradient_width(width)
    ends, blocks = _parts_in_all(parts)
    shown = [*ends, *["blocks.0"] * bool(blocks)]
    here = held_placements(config, shown, tp_rank)
    if p.zero:
        units = [
            (unit, blocks if unit.name.startswith("blocks.") else 1)
            for unit in held_units(config, shown, tp_rank)
        ]
        whole, owned = (
            sum(u.numel * n for u, n in units),
            sum(u.numel // p.replicas * n for u, n in units),
        )
        arriving = (
            sum(u.numel // p.replicas * n * (2 if u.low_precision else width) for u, n in units)
            if p.zero == 3 and p.replicas > 1 and rules.collectives is Collectives.RING
            else 0
        )
        partial = sum(
            numel * n
            for u, n in units
            for name, _, numel, _ in u.pieces(p.replicas, 0)
            if "tp" in here[name].sum_over
        )
        shared = tuple(
            u.numel // p.replicas
            for u, _ in units
            if any("pp" in here[one.name].sum_over for one in u.slices)
        )
        return Standing(
            width * (owned if p.zero == 3 else whole),
            grown * whole if p.zero == 1 else 0,
            grown * owned if p.zero > 1 else 0,
            arriving,
            owned,
            partial,
            shared,
        )
    places = [(place, blocks if name.startswith("blocks.") else 1) for name, place in here.items()]
    total = sum(place.numel * n for place, n in places)
    kept = total if rules.main_gradients else _in_buckets(config, parts, tp_rank)
    return Standing(
        width * total,
        grown * kept,
        grown * (total - kept),
        0,
        total,
        sum(place.numel * n for place, n in places if "tp" in place.sum_over),
        tuple(place.numel for place, _ in places if "pp" in place.sum_over),
    )


def _in_buckets(config: TrainConfig, parts: Mapping[int, list[str]], tp_rank: int) -> int:
    """Elements of the gradients that share a buffer with others."""
    if not has_buckets(config):
        return 0
    numels = {name: place.numel for name, place in _places(config, parts, tp_rank).items()}
    return sum(numels[name] for name in in_buckets(config, numels))


def _parts_in_all(parts: Mapping[int, list[str]]) -> tuple[list[str], int]:
    """The ends among `parts`, and how many blocks."""
    names = [part for stage in parts.values() for part in stage]
    return [part for part in names if not part.startswith("blocks.")], sum(
        part.startswith("blocks.") for part in names
    )


def _places(
    config: TrainConfig, parts: Mapping[int, list[str]], tp_rank: int
) -> dict[str, Placement]:
    return held_placements(config, [part for stage in parts.values() for part in stage], tp_rank)


def alone_in_its_bucket(
    config: TrainConfig, parts: Mapping[int, list[str]], tp_rank: int
) -> str | None:
    """The small gradient that is the only one in the last bucket, if there is such a one."""
    if not has_buckets(config):
        return None
    numels = {name: place.numel for name, place in _places(config, parts, tp_rank).items()}
    return next(iter(small_enough(config, numels) - in_buckets(config, numels)), None)


def alike(config: TrainConfig, tp_rank: int) -> int:
    """The first tp rank whose parts of all weights are as large."""
    p = config.parallel
    return _alike(config.model, p.tp, p.sequence_parallel)[tp_rank]


@lru_cache(maxsize=512)
def _alike(model: ModelConfig, tp: int, sequence_parallel: bool) -> list[int]:
    if tp == 1:
        return [0]
    config = TrainConfig(
        model=model,
        parallel=ParallelConfig(tp=tp, sequence_parallel=sequence_parallel),
        global_batch=1,
    )
    shapes = [
        [
            place.numel
            for place in held_placements(config, ("embed", "blocks.0", "head_loss"), rank).values()
        ]
        for rank in range(tp)
    ]
    return [shapes.index(shape) for shape in shapes]
