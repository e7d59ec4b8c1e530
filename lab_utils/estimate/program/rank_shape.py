"""What a rank holds, from a model of one block: all blocks of a rank are alike, so their names are
all that differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from ...config import ModelConfig, ParallelConfig, TrainConfig
from ...layout.placement import Placement, placements
from ...layout.units import Unit, zero_units

_FIRST = "blocks.0."


def held_placements(
    config: TrainConfig, parts: Iterable[str], tp_rank: int
) -> dict[str, Placement]:
    """Every parameter that `parts` ("embed", "blocks.3", "head_loss") of a rank need, by name, in
    the order of the forward pass."""
    parts = set(parts)
    tied, split = config.model.tied, config.parallel.pp * config.parallel.virtual_stages > 1
    ends, block = _split(*_one_block(config), tp_rank)
    found: dict[str, Placement] = {}
    for name, place in ends:
        if name == "token_embedding.weight" and tied:
            if parts & {"embed", "head_loss"}:
                found[name] = (
                    replace(place, copy="embed" not in parts, sum_over=place.sum_over | {"pp"})
                    if split
                    else place
                )
        elif _end_of(name) in parts:
            found[name] = place
    blocks = {
        f"{part}.{rest}": replace(place, name=f"{part}.{rest}")
        for part in _in_order(parts)
        for rest, place in block
    }
    first = {name: place for name, place in found.items() if "embedding" in name}
    return first | blocks | {name: place for name, place in found.items() if name not in first}


def held_shapes(
    config: TrainConfig, parts: Iterable[str], tp_rank: int
) -> dict[str, tuple[int, ...]]:
    """The same parameters' shapes on that rank."""
    return {
        name: place.local_shape for name, place in held_placements(config, parts, tp_rank).items()
    }


def held_units(config: TrainConfig, parts: Iterable[str], tp_rank: int) -> list[Unit]:
    """The units of ZeRO that `parts` need, in the order of the forward pass."""
    parts = set(parts)
    model, parallel = _one_block(config)
    units = _units(
        model,
        replace(parallel, zero=config.parallel.zero, dp=config.parallel.dp, cp=config.parallel.cp),
        config.precision,
        tp_rank,
    )
    before, after, block = [], [], []
    for unit in units:
        label = unit.name.split(" ")[0]
        if label == "blocks.0":
            block.append(unit)
        elif label == "head":
            after += [unit] if "head_loss" in parts else []
        elif "embed" in parts or label == "token_embedding" and "head_loss" in parts:
            before.append(unit)
    return [*before, *(_renamed(unit, part) for part in _in_order(parts) for unit in block), *after]


def _renamed(unit: Unit, part: str) -> Unit:
    own = tuple(one._replace(name=f"{part}.{one.name.removeprefix(_FIRST)}") for one in unit.slices)
    return unit._replace(name=unit.name.replace("blocks.0", part), slices=own)


def _in_order(parts: Iterable[str]) -> list[str]:
    return sorted(
        (part for part in parts if part.startswith("blocks.")),
        key=lambda part: int(part.split(".")[1]),
    )


def _end_of(name: str) -> str:
    return "embed" if "embedding" in name else "head_loss"


def _one_block(config: TrainConfig) -> tuple[ModelConfig, ParallelConfig]:
    p = config.parallel
    return _cut_down(config.model), ParallelConfig(tp=p.tp, sequence_parallel=p.sequence_parallel)


@lru_cache(maxsize=256)
def _cut_down(model: ModelConfig) -> ModelConfig:
    return replace(model, layers=1)


@lru_cache(maxsize=1024)
def _split(
    model: ModelConfig, parallel: ParallelConfig, tp_rank: int
) -> tuple[list[tuple[str, Placement]], list[tuple[str, Placement]]]:
    here = placements(model, parallel, 0, tp_rank)
    return [(n, place) for n, place in here.items() if not n.startswith(_FIRST)], [
        (n.removeprefix(_FIRST), p) for n, p in here.items() if n.startswith(_FIRST)
    ]


@lru_cache(maxsize=1024)
def _units(
    model: ModelConfig, parallel: ParallelConfig, precision: str, tp_rank: int
) -> tuple[Unit, ...]:
    return zero_units(
        TrainConfig(model=model, parallel=parallel, global_batch=parallel.dp, precision=precision),
        0,
        tp_rank,
    )
