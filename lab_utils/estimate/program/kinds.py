"""What a run of the program depends on besides numbers, and the numbers: two shapes of one kind run
alike, kernel by kernel.

Which dims are cut, which parameters there are and which unit they belong to is asked of layout/ for
one configuration of the kind, the witness, whose numbers are all different. The sizes that a run is
given take their places: names, or other numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from ...config import ModelConfig, ParallelConfig, TrainConfig
from ...layout.placement import heads_of_rank
from ...layout.stages import part_of
from ...layout.units import Unit
from .rank_shape import held_placements, held_units
from .share import ALONE, Share
from .size import Size

_Config = TypeVar("_Config", ModelConfig, ParallelConfig, TrainConfig)
Sizes = Mapping[str, Size | int]  # by name
# of a model, what is no number
_ALIKE = ("norm", "activation", "positions", "attention", "bias", "tied")
# b sequences of s tokens on a cp rank (z on each rank of a scattered sequence), h wide; on a tp
# rank k key/value heads (j on each cp rank, where heads are swapped for tokens) of r query heads, d
# (2·e) wide each, f in the MLP and v words; t and D ranks along tp and dp
_WITNESS = {
    "b": 2,
    "s": 101,
    "z": 101,
    "h": 10007,
    "j": 3,
    "r": 5,
    "d": 14,
    "f": 10009,
    "v": 10037,
    "t": 2,
    "D": 2,
}
# the sizes of which a 1 makes a difference to what is copied or sent
_MAY_BE_ONE = ("b", "s", "j", "r", "d", "t", "D")


class Kind(NamedTuple):
    """`ones`: which sizes are 1. `recomputed`: blocks run again in full; `selective`: only their
    attention is. `share`: with tp_rank 0 and, where that is no matter of kind, tp 1."""

    model: tuple[Any, ...]
    precision: str
    selective: bool
    recomputed: tuple[int, ...]
    layers: int
    share: Share
    zero: int
    micro_batches: int
    ones: frozenset[str]


def numbers_of(
    model: ModelConfig, micro_batch: int, share: Share = ALONE, dp: int = 1
) -> dict[str, int]:
    """The named sizes of a model, as they are on a rank with this share."""
    tp, tp_rank, seq = share.tp, share.tp_rank, model.seq // share.cp
    heads = heads_of_rank(model, tp, tp_rank)[1]
    return {
        "b": micro_batch,
        "s": seq,
        "z": seq // tp,
        "h": model.hidden,
        "k": heads,
        "j": heads // _swapped(share),
        "r": model.heads // model.kv_heads,
        "d": model.head_dim,
        "e": model.head_dim // 2,
        "f": part_of(model.ffn, tp, tp_rank)[1],
        "v": part_of(model.vocab, tp, tp_rank)[1],
        "t": tp,
        "D": dp,
    }


def _swapped(share: Share) -> int:
    """Among how many ranks the heads of a tp rank are shared out inside attention."""
    return share.cp if share.cp_kind == "all-to-all" else 1


def kind_of(
    model: ModelConfig,
    precision: str,
    numbers: Mapping[str, int],
    *,
    share: Share,
    layers: int,
    recomputed: tuple[int, ...],
    selective: bool,
    zero: int = 0,
    micro_batches: int = 1,
) -> Kind:
    """The kind of a run of `layers` blocks of `model` with these `numbers`."""
    ones = frozenset(name for name in _MAY_BE_ONE if numbers[name] == 1)
    alike = tuple(getattr(model, name) for name in _ALIKE)
    return Kind(
        alike,
        precision,
        selective,
        recomputed,
        layers,
        share._replace(
            tp=1, tp_rank=0, sequence_parallel=share.sequence_parallel and "t" not in ones
        ),
        zero,
        micro_batches,
        ones,
    )


@lru_cache(maxsize=512)
def witness(kind: Kind) -> TrainConfig:
    """A configuration of this kind, with numbers."""
    n = {name: 1 if name in kind.ones else number for name, number in _WITNESS.items()}
    share, scattered = kind.share, kind.share.sequence_parallel
    seq = share.cp * (n["t"] * n["z"] if scattered else n["s"])
    kv_heads = n["j"] * _swapped(share) * n["t"]
    model = ModelConfig(
        layers=kind.layers,
        hidden=n["h"],
        heads=n["r"] * kv_heads,
        kv_heads=kv_heads,
        head_dim=n["d"],
        ffn=n["f"] * n["t"],
        vocab=n["v"] * n["t"],
        seq=seq,
        **dict(zip(_ALIKE, kind.model, strict=True)),
    )
    parallel = ParallelConfig(
        tp=n["t"],
        dp=n["D"],
        cp=share.cp,
        cp_kind=share.cp_kind,
        zero=kind.zero,
        sequence_parallel=scattered,
    )
    recompute = ",".join(map(str, kind.recomputed)) or ("selective" if kind.selective else "none")
    return TrainConfig(
        model=model,
        parallel=parallel,
        micro_batch=n["b"],
        global_batch=n["b"] * n["D"] * kind.micro_batches,
        precision=kind.precision,
        recompute=recompute,
    )


@lru_cache(maxsize=512)
def names_of(kind: Kind) -> Mapping[str, Size | int]:
    """Every size of a kind by its name."""
    names: dict[str, Size | int] = {
        name: 1 if name in kind.ones else Size.named(name) for name in _WITNESS
    }
    if _swapped(kind.share) == 1 and "j" not in kind.ones:
        names["j"] = Size.named("k")
    names["k"] = names["j"] * _swapped(kind.share)
    if kind.share.sequence_parallel:
        names["s"] = names["t"] * names["z"]
    if kind.model[_ALIKE.index("positions")] == "rope":
        names["d"] = 2 * Size.named("e")  # turned in pairs
    return names


def filled_in(kind: Kind, sizes: Sizes) -> TrainConfig:
    """The witness with these sizes in place of the numbers that the program reads."""
    n, config = sizes, witness(kind)
    model = _put(config.model, hidden=n["h"], seq=n["s"] * kind.share.cp, head_dim=n["d"])
    batch = n["b"] * n["D"] * kind.micro_batches
    return _put(
        config,
        model=model,
        parallel=_put(config.parallel, tp=n["t"], dp=n["D"]),
        micro_batch=n["b"],
        global_batch=batch,
    )


def _put(config: _Config, **sizes: Any) -> _Config:
    """The same with these fields, which are not checked: they need not be numbers."""
    other = object.__new__(type(config))
    for field in fields(config):
        object.__setattr__(other, field.name, sizes.get(field.name, getattr(config, field.name)))
    return other


def shapes_of(kind: Kind, parts: Iterable[str], sizes: Sizes) -> dict[str, tuple[Size | int, ...]]:
    """The shape of every parameter that `parts` of a rank need, by name."""
    n, config = sizes, witness(kind)
    attention = {"a·d": n["r"] * n["k"] * n["d"], "k·d": n["k"] * n["d"]}
    local = numbers_of(config.model, config.micro_batch, Share.of(config))
    known = {
        local["r"] * local["k"] * local["d"]: attention["a·d"],
        local["k"] * local["d"]: attention["k·d"],
        config.model.seq: n["s"] * kind.share.cp,
    }
    known |= {local[name]: n[name] for name in ("h", "f", "v")}
    return {
        name: tuple(known[size] for size in place.local_shape)
        for name, place in held_placements(config, parts, 0).items()
    }


def units_of(kind: Kind, parts: Iterable[str], sizes: Sizes) -> list[Unit]:
    """ZeRO's units of these parts; a shard of each is a size of its own."""

    def shard(unit: Unit) -> Size | int:
        name = shard_name(unit)
        return sizes[name] if name in sizes else Size.named(name)

    return [
        unit._replace(numel=sizes["D"] * kind.share.cp * shard(unit))
        for unit in held_units(witness(kind), parts, 0)
    ]


def shard_name(unit: Unit) -> str:
    """What the size of a unit's shard is called; blocks are alike."""
    first, *rest = unit.name.split(" ")
    return " ".join(["shard of", first.split(".")[0], *rest])
