"""Bytes that one rank holds: parameters, gradients, optimizer states, and what ZeRO gathers. Saved activations and peaks
are not estimated yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from ..config import TrainConfig
from ..layout.placement import placements
from ..layout.schedule import make_schedule
from ..layout.stages import stage_layers, stages_of_rank
from ..layout.units import Unit, zero_units

# bytes per parameter that an optimizer keeps between steps, and bytes per tensor that it updates (AdamW counts its steps
# in one fp32 number for every tensor)
OPTIMIZER_BYTES = {"sgd": (4, 0), "adamw": (8, 4)}


def element_bytes(config: TrainConfig) -> int:
    """Bytes of one weight, and of one gradient: autocast leaves both in fp32."""
    return 2 if config.precision == "bf16-pure" else 4


def model_state_bytes(config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer states on the ranks at these coordinates; padding included.

    Without ZeRO a rank's optimizer updates every parameter that it holds; with it, one shard of each unit (Rajbhandari et
    al. 2020, figure 1: stage 1 cuts the optimizer's part by the number of ranks, stage 2 also the gradients, stage 3 also
    the parameters). fp32 master weights, where the model's own are rounded or elsewhere, count to the optimizer.
    """
    p, size = config.parallel, element_bytes(config)
    if p.zero == 0:
        tensors = [place.numel for place in placements(config.model, p, pp_rank, tp_rank).values()]
        held, kept, owned = sum(tensors), sum(tensors), sum(tensors)
    else:
        tensors = [unit.numel for unit in zero_units(config, pp_rank, tp_rank)]
        whole, owned = sum(tensors), sum(tensors) // p.dp
        held, kept = owned if p.zero == 3 else whole, owned if p.zero >= 2 else whole
    per_element, per_tensor = OPTIMIZER_BYTES[config.optimizer]
    masters = 4 if p.offload or config.precision == "bf16-pure" else 0
    states = (per_element + masters) * owned + per_tensor * len(tensors)
    found = {"parameters": size * held, "gradients": size * kept, "optimizer": 0 if p.offload else states, "offloaded": states if p.offload else 0}
    return found | {"buckets": _buckets(config, pp_rank, tp_rank), "gathered": _gathered(config, pp_rank, tp_rank)}


def parts_of_stages(config: TrainConfig, pp_rank: int) -> dict[int, list[str]]:
    """The parts of each of a rank's stages: "embed", "blocks.3", "predict", in forward order."""
    p = config.parallel
    stages = p.pp * p.virtual_stages
    found = {}
    for stage in stages_of_rank(pp_rank, p.pp, p.virtual_stages):
        blocks = [f"blocks.{layer}" for layer in stage_layers(config.model.layers, stages)[stage]]
        found[stage] = ["embed"] * (stage == 0) + blocks + ["predict"] * (stage == stages - 1)
    return found


def units_of_part(part: str, units: Iterable[Unit], tied: bool) -> list[Unit]:
    """The units whose weights a part uses; a tied embedding is used at both ends."""
    def used(unit: Unit) -> bool:
        name = unit.name.split(" ")[0]
        if part == "embed":
            return name in ("embedding", "token_embedding", "position_embedding")
        return name == part or part == "predict" and (name == "head" or tied and name == "token_embedding")

    return [unit for unit in units if used(unit)]


def unit_bytes(unit: Unit, config: TrainConfig) -> int:
    """Bytes of a unit as ZeRO-3 gathers it: in the autocast format what autocast would cast, the rest as it is held."""
    return unit.numel * (2 if unit.low_precision else element_bytes(config))


def _gathered(config: TrainConfig, pp_rank: int, tp_rank: int) -> int:
    """ZeRO-3, at most: one part's weights and the next one's, which travel meanwhile. A tied embedding stays from the
    head's backward pass until its own."""
    if config.parallel.zero < 3:
        return 0
    units, tied = zero_units(config, pp_rank, tp_rank), config.model.tied
    most = 0
    for parts in parts_of_stages(config, pp_rank).values():
        needs = [{u.name: unit_bytes(u, config) for u in units_of_part(part, units, tied)} for part in parts]
        held = {k: v for k, v in needs[-1].items() if k.startswith("token_embedding")} if parts[0] == "embed" and parts[-1] == "predict" else {}
        most = max([most, *(sum((a | b | held).values()) for a, b in pairwise(needs))], default=most)
        most = max(most, *(sum(n.values()) for n in needs))
    return most


def _buckets(config: TrainConfig, pp_rank: int, tp_rank: int) -> int:
    """ZeRO-2 and -3, at most: whole gradients being filled, and the one before, which is still being summed."""
    p = config.parallel
    if p.zero < 2:
        return 0
    stages = {}
    units = zero_units(config, pp_rank, tp_rank)
    for stage, parts in parts_of_stages(config, pp_rank).items():
        used = dict.fromkeys(unit for part in parts for unit in units_of_part(part, units, config.model.tied))
        order = {part.name: unit for unit in used for part in unit.parts}
        here = placements(config.model, p, pp_rank, tp_rank)
        names = sorted((name for name in here if name in order), key=lambda name: here[name].copy)      # the head's copy is used last
        stages[stage] = [order[name] for name in reversed(names)]       # a unit for every gradient, in the order of the backward pass
    plan = make_schedule(p.schedule, p.pp, config.micro_batches, p.virtual_stages)[pp_rank]
    passes = [action.stage for action in plan if action.kind == "B"]
    runs = [(None, stages[passes[0]]), *((stages[a][-1], stages[b]) for a, b in set(pairwise(passes)))]
    return element_bytes(config) * max(_most_filled(before, run) for before, run in runs)


def _most_filled(under_way: Unit | None, gradients: list[Unit]) -> int:
    """Elements: a buffer lives from its unit's first gradient until the next unit is complete."""
    missing = Counter(gradients)
    filling, most = set(), 0
    for unit in gradients:
        filling.add(unit)
        most = max(most, sum(u.numel for u in filling) + (under_way.numel if under_way else 0))
        missing[unit] -= 1
        if not missing[unit]:
            filling.remove(unit)
            under_way = unit
    return most
