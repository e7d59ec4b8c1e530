"""Bytes of one rank by term: parameters, gradients, optimizer states, what ZeRO gathers and sums
(here), and what a step saves and needs for a moment (fast/)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

from ...config import TrainConfig
from ...layout.optimizer_runs import Run, whole_shards
from ...layout.units import Unit
from ...layout.zero_events import (
    Do,
    Needs,
    ReduceOrder,
    backward_events,
    forward_events,
    needs_of_parts,
)
from ..program.conventions import CONVENTIONS
from ..program.rank_shape import held_placements, held_units
from ..program.stage_parts import parts_of_stages
from ..same_bytes import same_bytes
from ..update import differs_by_data_rank, state_bytes, update_cost
from .fast.closed_form import passes_of, rank_memory
from .fast.short import cut_down
from .fast.standing import alike


def element_bytes(config: TrainConfig) -> int:
    """Bytes of one weight, and of one gradient in torch: autocast leaves both in fp32."""
    return 2 if config.precision == "bf16-pure" else 4


def _gradient_bytes(config: TrainConfig, convention: str) -> int:
    return CONVENTIONS[convention].gradient_width(element_bytes(config))


def model_state_bytes(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    convention: str = "cpu",
    data_rank: int = 0,
) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer states on the ranks at these coordinates;
    padding included.

    Without ZeRO a rank's optimizer updates every parameter that it holds; with it, one shard of
    each unit (Rajbhandari et al. 2020, figure 1: stage 1 cuts the optimizer's part by the number of
    ranks, stage 2 also the gradients, stage 3 also the parameters). fp32 master weights, where the
    model's own are rounded or elsewhere, count to the optimizer. `data_rank`, along dp × cp: ranks
    that own different pieces keep different amounts where a rule looks at a tensor's shape.
    """
    place = same_bytes(config), pp_rank, alike(config, tp_rank)
    data_rank = data_rank if differs_by_data_rank(config) else 0
    return _states(*place, convention, data_rank) | _in_transit(*place, convention)


def lasting_bytes(config: TrainConfig, pp_rank: int = 0, convention: str = "cpu") -> dict[str, int]:
    """The same without what ZeRO gathers and sums for a moment; quicker by far."""
    return dict(_states(same_bytes(config), pp_rank, 0, convention, 0))


@lru_cache(maxsize=4096)
def _in_transit(config: TrainConfig, pp_rank: int, tp_rank: int, convention: str) -> dict[str, int]:
    return {
        "buckets": _gradient_bytes(config, convention) * _buckets(config, pp_rank, tp_rank),
        "gathered": _gathered(config, pp_rank, tp_rank),
    }


@lru_cache(maxsize=4096)
def _states(
    config: TrainConfig, pp_rank: int, tp_rank: int, convention: str, data_rank: int
) -> dict[str, int]:
    p, size = config.parallel, element_bytes(config)
    tensors = _tensors(config, pp_rank, tp_rank)
    whole = sum(numel * count for numel, _, count in tensors)
    owned = whole if p.zero == 0 else sum(shape[0] * count for _, shape, count in tensors)
    held, kept = owned if p.zero == 3 else whole, owned if p.zero >= 2 else whole
    masters = 4 if p.offload or config.precision == "bf16-pure" else 0
    if whole_shards(config):  # and all blocks are alike
        own = sum(
            count * state_bytes(Run(config.optimizer, 0, prod(shape)))
            for _, shape, count in tensors
        )
    else:
        own = update_cost(config, pp_rank, tp_rank, data_rank).states
    states = masters * owned + own
    return {
        "parameters": size * held,
        "gradients": _gradient_bytes(config, convention) * kept,
        "optimizer": 0 if p.offload else states,
        "offloaded": states if p.offload else 0,
    }


def _tensors(
    config: TrainConfig, pp_rank: int, tp_rank: int
) -> list[tuple[int, tuple[int, ...], int]]:
    """(elements held whole, shape that the optimizer updates, how many of them); all blocks are
    alike."""
    parts = [part for stage in parts_of_stages(config, pp_rank).values() for part in stage]
    blocks = sum(part.startswith("blocks.") for part in parts)
    ends = [part for part in parts if not part.startswith("blocks.")]
    shown = [*ends, *["blocks.0"] * bool(blocks)]
    ranks = config.parallel.replicas

    def count(name: str) -> int:
        return blocks if name.startswith("blocks.") else 1

    if config.parallel.zero:
        return [
            (unit.numel, (unit.numel // ranks,), count(unit.name))
            for unit in held_units(config, shown, tp_rank)
        ]
    return [
        (place.numel, place.local_shape, count(name))
        for name, place in held_placements(config, shown, tp_rank).items()
    ]


def memory_of_rank(
    config: TrainConfig,
    pp_rank: int = 0,
    tp_rank: int = 0,
    convention: str = "cpu",
    cp_rank: int = 0,
    data_rank: int = 0,
) -> dict[str, Any]:
    """Every memory term of the report for the ranks at these coordinates; `peak` is that of a step
    with the instruments on.

    `temporary` is None: what is neither held nor saved has no most of its own that a measurement
    could be held against; of the peak it is in `at_peak`.
    """
    states = model_state_bytes(config, pp_rank, tp_rank, convention, data_rank)
    in_one_kernel = config.optimizer in ("sgd", "adam", "adamw")
    updating = (
        0  # offloaded, it happens in the host's memory
        if in_one_kernel or config.parallel.offload
        else update_cost(config, pp_rank, tp_rank, data_rank).temporary
    )
    step = rank_memory(config, pp_rank, tp_rank, states["optimizer"], convention, cp_rank, updating)
    saved = {"activations": step.activations, "weight_copies": step.weight_copies}
    return (
        states
        | saved
        | {
            "peak": step.peak,
            "at_peak": {term: nbytes for term, nbytes in step.at_peak.items() if nbytes},
        }
    )


def unit_bytes(unit: Unit, config: TrainConfig) -> int:
    """Bytes of a unit as ZeRO-3 gathers it: in the autocast format what autocast would cast, the
    rest as it is held."""
    return unit.numel * (2 if unit.low_precision else element_bytes(config))


def _gathered(config: TrainConfig, pp_rank: int, tp_rank: int) -> int:
    """ZeRO-3, at most: the units that are unsharded at one time."""
    if config.parallel.zero < 3:
        return 0
    units, needs = _units_and_needs(config, pp_rank, tp_rank)
    sizes, most = {unit.name: unit_bytes(unit, config) for unit in units}, 0
    for of_stage in needs.values():
        here: set[str] = set()
        order = ReduceOrder(units, config.parallel.zero)
        for do, name in (*forward_events(of_stage, 3), *backward_events(of_stage, order)):
            if do is Do.UNSHARD:
                here.add(name)
                most = max(most, sum(sizes[unit] for unit in here))
            elif do is Do.RESHARD:
                here.discard(name)
    return most


def _buckets(config: TrainConfig, pp_rank: int, tp_rank: int) -> int:
    """ZeRO-2 and -3, at most, in elements: whole gradients being filled, and the one before, which
    is still being summed."""
    if config.parallel.zero < 2:
        return 0
    units, needs = _units_and_needs(config, pp_rank, tp_rank)
    passes = passes_of(config, pp_rank)
    return max(
        _most_filled(units, config.parallel.zero, [needs[stage] for stage in stages])
        for stages in ((passes[0],), *set(pairwise(passes)))
    )


def _most_filled(units: Sequence[Unit], zero: int, passes: Iterable[Sequence[Needs]]) -> int:
    """Elements: a buffer lives from its unit's first gradient until the sum is collected."""
    order, filling = ReduceOrder(units, zero), set[str]()
    numels = {unit.name: unit.numel for unit in units}
    alive = most = 0
    for do, name in (event for needs in passes for event in backward_events(needs, order)):
        if do is Do.GRADIENT and order.unit_of[name] not in filling:
            filling.add(order.unit_of[name])
            alive += numels[order.unit_of[name]]
            most = max(most, alive)
        elif do is Do.REDUCE:
            filling.remove(name)
        elif do is Do.COLLECT:
            alive -= numels[name]
    return most


def _units_and_needs(
    config: TrainConfig, pp_rank: int, tp_rank: int
) -> tuple[list[Unit], dict[int, tuple[Needs, ...]]]:
    """Of a rank whose long runs of blocks are cut short: no two neighbours differ that did not
    before. The head's copy of a tied embedding is used last."""
    stages = {
        stage: cut_down(parts, set())[0]
        for stage, parts in parts_of_stages(config, pp_rank).items()
    }
    held = [part for parts in stages.values() for part in parts]
    units, here = held_units(config, held, tp_rank), held_placements(config, held, tp_rank)
    names = sorted(here, key=lambda name: here[name].copy)
    return units, {
        stage: needs_of_parts(parts, units, names, config.model.tied)
        for stage, parts in stages.items()
    }
