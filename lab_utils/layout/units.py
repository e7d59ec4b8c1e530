"""The units of ZeRO: parameters that are laid end to end in one flat buffer, which the ranks that
hold the same weights (dp × cp) cut into equal shards.

A unit is a block (or the embedding, or the head), so that stage 3 need only gather one block at a
time. What several tensor-parallel ranks hold whole comes first, and the buffer is padded to the
widest of them, so that such a parameter's shard lies with the same rank on all of them. A tied
embedding is a unit of its own: the first and the last stage then cut it alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from ..config import ModelConfig, ParallelConfig, TrainConfig
from ..config.flag import AUTOCAST_BYTES
from .placement import Placement, placements


class Slice(NamedTuple):
    """One parameter's place in its unit's buffer, in elements."""

    name: str
    offset: int
    numel: int


class Unit(NamedTuple):
    """`numel` elements in all, padding included; dp × cp divides it. `low_precision`: stage 3
    gathers it in the autocast format."""

    name: str
    slices: tuple[Slice, ...]
    numel: int
    low_precision: bool = False

    def pieces(self, ranks: int, rank: int) -> list[tuple[str, int, int, int]]:
        """What lies in one rank's shard: (parameter, first element in the shard, elements, first
        element in the parameter)."""
        each = self.numel // ranks
        low, high = rank * each, (rank + 1) * each
        found = []
        for one in self.slices:
            start, end = max(low, one.offset), min(high, one.offset + one.numel)
            if start < end:
                found.append((one.name, start - low, end - start, start - one.offset))
        return found


def unit_name(name: str, tied: bool) -> str:
    """The unit that a parameter belongs to."""
    if name.startswith("blocks."):
        return ".".join(name.split(".")[:2])
    if name.startswith(("token_embedding", "position_embedding")):
        return name.split(".")[0] if tied else "embedding"
    return "head"


def names_used(part: str, tied: bool) -> tuple[str, ...]:
    """How the names of the parameters begin that a part of the model uses; a tied embedding is used
    at both ends."""
    if part == "embed":
        return "token_embedding", "position_embedding"
    if part == "head_loss":
        return ("final_norm", "head", *["token_embedding"] * tied)
    return (f"{part}.",)


def units_of_part(part: str, units: Iterable[Unit], tied: bool) -> list[Unit]:
    """The units whose weights a part uses."""
    names = names_used(part, tied)
    return [unit for unit in units if any(p.name.startswith(names) for p in unit.slices)]


def zero_units(config: TrainConfig, pp_rank: int, tp_rank: int) -> tuple[Unit, ...]:
    """The units on the rank at these coordinates, in the order of the forward pass."""
    return _units(
        config.model, config.parallel, config.precision in AUTOCAST_BYTES, pp_rank, tp_rank
    )


@lru_cache(maxsize=512)
def _units(
    model: ModelConfig, parallel: ParallelConfig, autocast: bool, pp_rank: int, tp_rank: int
) -> tuple[Unit, ...]:
    on_all = [placements(model, parallel, pp_rank, r) for r in range(parallel.tp)]
    groups: dict[tuple[str, bool], list[str]] = {}
    for name in on_all[tp_rank]:
        low = parallel.zero == 3 and autocast and _is_multiplied(name, model)
        groups.setdefault((unit_name(name, model.tied), low), []).append(name)
    units = []
    for (unit, low), names in groups.items():
        widest = max(sum(rank[name].numel for name in names) for rank in on_all)
        padded = -(-widest // parallel.replicas) * parallel.replicas
        label = (
            f"{unit} ({'matrices' if low else 'rest'})" if parallel.zero == 3 and autocast else unit
        )
        units.append(
            Unit(label, _end_to_end([on_all[tp_rank][name] for name in names]), padded, low)
        )
    return tuple(units)


def _end_to_end(group: list[Placement]) -> tuple[Slice, ...]:
    slices, offset = [], 0
    # stable: whole ones first
    for placement in sorted(group, key=lambda p: p.dim is not None):
        slices.append(Slice(placement.name, offset, placement.numel))
        offset += placement.numel
    return tuple(slices)


def _is_multiplied(name: str, model: ModelConfig) -> bool:
    """Whether autocast would cast it: weights and biases of linear layers, a tied head excepted."""
    return ".attention." in name or ".mlp." in name or name == "head.weight" and not model.tied
