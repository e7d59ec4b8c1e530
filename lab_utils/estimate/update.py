"""What the optimizer's rule costs a rank: bytes that it keeps, bytes that it needs for a moment,
what it sends, and its own products.

By the same runs as the engine's (layout/optimizer_runs.py). sgd, adam, adamw, lion treat every
element alike; adafactor keeps a matrix's rows' and columns' means and adds numbers up over ranks;
adam8bit keeps blocks of 256; muon keeps one moment, and makes matrices whole
(engines/whole_matrices.py says how). Each was held against its published implementation
(tests/optimizers).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple

from ..config import TrainConfig
from ..layout.context import data_axis
from ..layout.optimizer_runs import (
    BLOCK,
    SMALL,
    Run,
    cut_blocks,
    is_hidden_matrix,
    matrices,
    optimizer_runs,
    owners,
    whole_shards,
)
from ..layout.parameters import parameter_shapes
from ..layout.placement import Placement, placements
from ..layout.units import zero_units
from .same_bytes import same_bytes

FP32, STEPS = 4, 5  # bytes; Newton–Schulz iterations
CHUNK = 64 * BLOCK  # elements that adam8bit unpacks at one time

# op, axis, purpose, calls, bytes, wire bytes (None: a ring's)
Item = tuple[str, str, str, int, int, int | None]


class UpdateCost(NamedTuple):
    """Of one rank: `states` and `temporary` in bytes, without fp32 master weights."""

    states: int
    temporary: int
    traffic: tuple[Item, ...] = ()


def differs_by_data_rank(config: TrainConfig) -> bool:
    """Whether ranks that train the same weights keep or send different amounts for the update."""
    return config.parallel.zero > 0 and not whole_shards(config)


def update_cost(
    config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0, data_rank: int = 0
) -> UpdateCost:
    """The cost on the rank at these coordinates; `data_rank` counts along dp × cp."""
    return _cost(
        same_bytes(config), pp_rank, tp_rank, data_rank if differs_by_data_rank(config) else 0
    )


def update_flops(config: TrainConfig) -> int:
    """FLOPs of Muon's Newton–Schulz products, of the whole job: ranks that hold the same matrices
    whole do the same work each."""
    if config.optimizer != "muon":
        return 0
    shapes = [s for name, s in parameter_shapes(config.model).items() if is_hidden_matrix(name)]
    return sum(map(newton_schulz_flops, shapes)) * (
        1 if config.parallel.zero else config.parallel.replicas
    )


def newton_schulz_flops(shape: tuple[int, ...]) -> int:
    """2·steps·(2·k²·l + k³) for a matrix of sides k ≤ l."""
    k, length = sorted(shape)
    return 2 * STEPS * (2 * k * k * length + k**3)


def state_bytes(run: Run, place: Placement | None = None) -> int:
    """What a rule keeps for one run, which is a part of the tensor at `place`."""
    n = run.numel
    match run.rule:
        case "adam" | "adamw":
            return 2 * FP32 * n + FP32  # and a count of steps for every tensor
        case "adafactor" if len(place.shape) == 2:
            return FP32 * sum(place.shape) + FP32
        case "adafactor":
            return FP32 * n + FP32
        case "adam8bit" if place.numel >= SMALL:
            return 2 * (n + FP32 * -(-(run.offset % BLOCK + n) // BLOCK))
        case "adam8bit":
            return 2 * FP32 * n
    return FP32 * n  # sgd, lion, muon: one moment


def states_of_whole(kind: str, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Bytes of states of one process that holds these parameters."""
    config = TrainConfig(optimizer=kind)
    places = {name: Placement(name, shape) for name, shape in shapes.items()}
    return sum(
        state_bytes(run, places.get(run.parameter))
        for name, place in places.items()
        for run in optimizer_runs(config, ((name, 0, place.numel, 0),), place.numel)
    )


@lru_cache(maxsize=4096)
def _cost(config: TrainConfig, pp_rank: int, tp_rank: int, data_rank: int) -> UpdateCost:
    p, kind = config.parallel, config.optimizer
    here = placements(config.model, p, pp_rank, tp_rank)
    units = zero_units(config, pp_rank, tp_rank) if p.zero else ()
    shards = (
        [(unit.pieces(p.replicas, data_rank), unit.numel // p.replicas) for unit in units]
        if p.zero
        else [(((name, 0, x.numel, 0),), x.numel) for name, x in here.items()]
    )
    runs = [run for pieces, n in shards for run in optimizer_runs(config, pieces, n)]
    states = sum(state_bytes(run, here.get(run.parameter)) for run in runs)
    if kind == "muon":
        return UpdateCost(states, *_exchange(config, pp_rank, tp_rank, data_rank))
    if kind == "adafactor":
        return UpdateCost(states, *_adafactor(config, here, runs))
    if kind == "adam8bit":
        cut = len(cut_blocks(units, here, p.replicas))
        item = ("all_reduce", data_axis(config), "update", 1, 2 * FP32 * cut, None)
        return UpdateCost(states, _adam8bit(here, runs, cut), (item,) * (cut > 0))
    return UpdateCost(states, _elementwise_temporary(kind, runs))


def _elementwise_temporary(kind: str, runs: Iterable[Run]) -> int:
    most = max((run.numel for run in runs), default=0)
    return FP32 * most if kind == "lion" else 0  # the direction; the others are one kernel


def _adam8bit(here: Mapping[str, Placement], runs: Sequence[Run], cut: int) -> int:
    """Both moments of a chunk unpacked and two more of its size, its codes as int32; the largest of
    each block, two codebooks and the limits between one's codes; where ZeRO cuts blocks, theirs. A
    small tensor's stay unpacked."""
    small = [run.numel for run in runs if here[run.parameter].numel < SMALL]
    chunk = min(CHUNK, max((r.numel for r in runs if here[r.parameter].numel >= SMALL), default=0))
    blocks = -(-chunk // BLOCK)
    packed = 5 * FP32 * chunk + FP32 * (blocks + 2 * 256 + 255) if chunk else 0
    elsewhere = 2 * FP32 * (cut + blocks) if cut else 0
    return max(packed, 3 * FP32 * max(small, default=0)) + elsewhere


def _adafactor(
    config: TrainConfig, here: Mapping[str, Placement], runs: Sequence[Run]
) -> tuple[int, tuple[Item, ...]]:
    """Two sums: every tensor's statistics, then one number each."""
    cut = [place for place in here.values() if place.dim is not None]
    items: list[Item] = []
    for axis, places in (
        (data_axis(config), here.values() if config.parallel.zero else ()),
        ("tp", cut),
    ):
        if places:
            numbers = sum(_statistics(place) + 1 for place in places)
            items.append(("all_reduce", axis, "update", 2, FP32 * numbers, None))
    most, seen = 0, 0
    every = sum(_statistics(here[run.parameter]) for run in runs)
    for run in runs:
        place = here[run.parameter]
        rows, width = _touched(run, place)
        seen += _statistics(place)
        sums = rows + width if len(place.shape) == 2 else 0
        # its squares, while they are added up; its expected squares, when all have been
        most = max(most, rows * width + max(seen + sums, every + 1))
    together = sum(map(_statistics, here.values())) if items else 0
    return FP32 * max(most, every + together), tuple(items)


def _statistics(place: Placement) -> int:
    """Numbers that the ranks add up for one tensor, at first."""
    return 1 + (sum(place.shape) if len(place.shape) == 2 else 0)


def _touched(run: Run, place: Placement) -> tuple[int, int]:
    """Rows in which a run lies, and their width; a vector is one row."""
    if len(place.shape) != 2:
        return 1, run.numel
    width = place.local_shape[1]
    return (run.offset + run.numel - 1) // width - run.offset // width + 1, width


def _exchange(
    config: TrainConfig, pp_rank: int, tp_rank: int, data_rank: int
) -> tuple[int, tuple[Item, ...]]:
    """Muon's (temporary bytes, traffic)."""
    p = config.parallel
    everywhere = [placements(config.model, p, pp_rank, r) for r in range(p.tp)]
    here = everywhere[tp_rank]
    names = matrices(here)
    width = FP32 if config.precision == "fp32" else 2
    if not p.zero or p.replicas == 1:
        return _over_tp(names, everywhere, tp_rank, width, 0)
    held = {
        name: numel
        for unit in zero_units(config, pp_rank, tp_rank)
        for name, _, numel, _ in unit.pieces(p.replicas, data_rank)
    }
    owner = owners([here[name].numel for name in names], p.replicas)
    owned = [name for name, r in zip(names, owner, strict=True) if r == data_rank]
    mine = sum(held.get(name, 0) for name in names)
    whole = sum(here[name].numel for name in owned)
    stays = sum(held.get(name, 0) for name in owned)
    both = FP32 * (mine + whole)
    item = ("all_to_all", data_axis(config), "update", 2, both, both - 2 * FP32 * stays)
    inner, items = _over_tp(owned, everywhere, tp_rank, width, whole)
    return max(both, FP32 * (2 * whole + mine), FP32 * whole + inner), (item, *items)


def _over_tp(
    names: Sequence[str],
    everywhere: Sequence[Mapping[str, Placement]],
    tp_rank: int,
    width: int,
    held: int,
) -> tuple[int, tuple[Item, ...]]:
    """(temporary bytes besides what is `held`, traffic) of matrices that are whole along the data
    axis."""
    here = everywhere[tp_rank]
    if all(here[name].dim is None for name in names):
        return max((_orthogonalising(here[name].shape, width) for name in names), default=0), ()
    wholes = [prod(here[name].shape) for name in names]
    owner = owners(wholes, len(everywhere))
    owned = [name for name, r in zip(names, owner, strict=True) if r == tp_rank]
    local, whole = sum(here[name].numel for name in names), sum(prod(here[n].shape) for n in owned)
    stays = sum(here[name].numel for name in owned)
    both = FP32 * (local + whole)
    item = ("all_to_all", "tp", "update", 2, both, both - 2 * FP32 * stays)
    # arrived parts and steps that are done make up all of the owned; one is in work
    inner = max(
        (FP32 * prod(here[n].shape) + _orthogonalising(here[n].shape, width) for n in owned),
        default=0,
    )
    return max(both, FP32 * whole + inner, FP32 * (2 * whole + local)), (item,)


def _orthogonalising(shape: tuple[int, ...], width: int) -> int:
    """Two matrices and two of its smaller side's squares at once; at the end the fp32 result beside
    the rounded one."""
    k, length = sorted(shape)
    return max(width * 2 * (k * length + k * k), (width + FP32) * k * length)
