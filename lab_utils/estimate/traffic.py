"""What one rank hands to collectives in one optimizer step, and what of it goes over the wire.

Activations (tp, cp) are the messages of the ledger's ops, once for each of the m micro-batches; all
else is closed forms. With Ψ parameters and N ranks a
data-parallel step moves 2Ψ(N−1)/N numbers whatever m is; ZeRO-2 moves (m+1)/2 times that, ZeRO-3
1.5·m times (Rajbhandari et al. 2020, section 7, at m = 1). Tensor parallelism moves four
all-reduces a layer and micro-batch; with sequence parallelism the backward pass also gathers the
saved shards again, 1.25 times as much (Korthikanti et al. 2022, section 4.2.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import prod

from ..config import ModelConfig, ParallelConfig, TrainConfig
from ..layout.buckets import Bucket, assign_buckets
from ..layout.context import data_axis
from ..layout.optimizer_runs import ELEMENTWISE
from ..layout.parameters import parameter_shapes
from ..layout.placement import placements
from ..layout.units import units_of_part
from ..layout.wire import wire_bytes
from ..layout.zero_events import gathers_after_update, reductions
from ..report import Traffic
from .memory.fast.standing import alike
from .memory.terms import element_bytes, unit_bytes
from .ops import ledger_parts
from .program.rank_shape import held_placements, held_units
from .program.stage_parts import parts_of_stages
from .summands import summand_numels
from .update import update_cost

# gradients are reduced in fp32; under bf16 autocast the parameters, so the gradients, stay fp32
GRADIENT_BYTES = 4
Item = tuple[str, str, str, int, int]  # op, axis, purpose, calls, bytes in all
_NORM_BYTES = 8  # the squared norm travels as one fp64 number


def gradient_messages(config: TrainConfig) -> tuple[Bucket, ...]:
    """The all-reduces of one data-parallel step in the order in which they leave: one per bucket,
    or one per gradient (naive)."""
    return _messages(
        config.model,
        None if config.parallel.gradient_sync == "naive" else config.parallel.bucket_bytes,
    )


@lru_cache(maxsize=64)  # tools price thousands of layouts of a few models
def _messages(model: ModelConfig, bucket_bytes: int | None) -> tuple[Bucket, ...]:
    return _bucketed(
        {name: prod(shape) for name, shape in parameter_shapes(model).items()},
        bucket_bytes,
        GRADIENT_BYTES,
    )


def _bucketed(numels: dict[str, int], bucket_bytes: int | None, size: int) -> tuple[Bucket, ...]:
    if bucket_bytes is None:
        return tuple(Bucket((name,), (0,), numel) for name, numel in numels.items())
    return assign_buckets(numels, bucket_bytes, size)


def step_traffic(
    config: TrainConfig, dp_rank: int = 0, pp_rank: int = 0, tp_rank: int = 0
) -> tuple[Traffic, ...]:
    """One rank's traffic in one optimizer step: one entry per (op, axis, purpose)."""
    return traffic_of_dp_ranks(config, pp_rank, tp_rank)[dp_rank]


def traffic_of_dp_ranks(
    config: TrainConfig, pp_rank: int = 0, tp_rank: int = 0
) -> list[tuple[Traffic, ...]]:
    """The same for every data rank (dp × cp) at these coordinates: they differ in what they own of
    the gradients that are summed over tp, and in what the optimizer's rule sends."""
    passes = _of_passes(config, pp_rank, tp_rank)
    if config.optimizer in ELEMENTWISE:
        return passes
    return [
        of_passes + _of_update(config, pp_rank, tp_rank, rank)
        for rank, of_passes in enumerate(passes)
    ]


def _of_update(
    config: TrainConfig, pp_rank: int, tp_rank: int, data_rank: int
) -> tuple[Traffic, ...]:
    p = config.parallel
    sizes = {data_axis(config): p.replicas, "tp": p.tp}
    return tuple(
        Traffic(
            op,
            axis,
            purpose,
            calls,
            payload,
            wire_bytes(op, payload, sizes[axis]) if wire is None else wire,
        )
        for op, axis, purpose, calls, payload, wire in update_cost(
            config, pp_rank, tp_rank, data_rank
        ).traffic
        if sizes[axis] > 1
    )


def _of_passes(config: TrainConfig, pp_rank: int, tp_rank: int) -> list[tuple[Traffic, ...]]:
    parts = [part for stage in parts_of_stages(config, pp_rank).values() for part in stage]
    blocks, like = sum(part.startswith("blocks.") for part in parts), alike(config, tp_rank)
    shown = (
        *(part for part in parts if not part.startswith("blocks.")),
        *["blocks.0"] * bool(blocks),
    )
    partial = summand_numels(config, shown, blocks, like)
    by_numel = {
        numel: _summed(config, shown, blocks, pp_rank, like, numel) for numel in set(partial)
    }
    return [by_numel[numel] for numel in partial]


def _summed(
    config: TrainConfig,
    shown: tuple[str, ...],
    blocks: int,
    pp_rank: int,
    tp_rank: int,
    partial: int,
) -> tuple[Traffic, ...]:
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    sources = (
        _data_parallel(config, shown, blocks, pp_rank, tp_rank),
        _activations(config, pp_rank, tp_rank),
        [("all_reduce", "tp", "gradient", 1, partial * element_bytes(config))] if partial else [],
        _pipeline(config, shown, pp_rank, tp_rank),
        _control(config),
    )
    for source in sources:
        for op, axis, purpose, calls, payload in source:
            before = sums.get((op, axis, purpose), (0, 0))
            sums[op, axis, purpose] = before[0] + calls, before[1] + payload
    p = config.parallel
    sizes = {data_axis(config): p.replicas, "pp": p.pp, "cp": p.cp, "tp": p.tp}
    return tuple(
        Traffic(*key, calls, payload, wire_bytes(key[0], payload, sizes[key[1]]))
        for key, (calls, payload) in sums.items()
        if sizes[key[1]] > 1
    )


def _data_parallel(
    config: TrainConfig, shown: tuple[str, ...], blocks: int, pp_rank: int, tp_rank: int
) -> Iterator[Item]:
    p, m, size = config.parallel, config.micro_batches, element_bytes(config)
    axis = data_axis(config)
    if p.replicas == 1:
        return
    if p.zero == 0:
        sums = _replicated(config.model, p, size, pp_rank, tp_rank)
        yield "all_reduce", axis, "gradient", *sums
        return
    units = held_units(config, shown, tp_rank)
    counts = [blocks if unit.name.startswith("blocks.") else 1 for unit in units]
    calls, numel = sum(counts), sum(n * unit.numel for n, unit in zip(counts, units, strict=True))
    times = reductions(p.zero, m)
    yield "reduce_scatter", axis, "gradient", times * calls, times * size * numel
    if gathers_after_update(p.zero):
        yield "all_gather", axis, "parameter", calls, size * numel
        return
    for part in shown:
        for unit in units_of_part(part, units, config.model.tied):
            at_both_ends = (
                part == "embed"
                and "head_loss" in shown
                and config.parallel.pp == 1
                and unit.name.startswith("token_embedding")
            )
            # it stayed from the head's backward pass until its own
            gathers = m * (1 if at_both_ends else 2) * (blocks if part == "blocks.0" else 1)
            yield "all_gather", axis, "parameter", gathers, gathers * unit_bytes(unit, config)


@lru_cache(maxsize=4096)
def _replicated(
    model: ModelConfig, p: ParallelConfig, size: int, pp_rank: int, tp_rank: int
) -> tuple[int, int]:
    """(all-reduces, bytes in all) of gradients that every rank holds."""
    numels = {name: place.numel for name, place in placements(model, p, pp_rank, tp_rank).items()}
    return len(
        _bucketed(numels, None if p.gradient_sync == "naive" else p.bucket_bytes, size)
    ), size * sum(numels.values())


def _activations(config: TrainConfig, pp_rank: int, tp_rank: int) -> Iterator[Item]:
    """What the ops of a micro-batch send, m times; the ranks of a ring send alike."""
    m = config.micro_batches
    if config.parallel.tp == config.parallel.cp == 1:
        return
    for _, ops in ledger_parts(config, pp_rank, tp_rank):
        for message in (message for op in ops for message in op.traffic):
            yield message.op, message.axis, message.purpose, m, m * message.bytes


def _pipeline(
    config: TrainConfig, shown: tuple[str, ...], pp_rank: int, tp_rank: int
) -> Iterator[Item]:
    p, size = config.parallel, element_bytes(config)
    if p.pp == 1:
        return
    last = p.pp * p.virtual_stages - 1
    sends = (
        sum((stage < last) + (stage > 0) for stage in parts_of_stages(config, pp_rank))
        * config.micro_batches
    )
    payload = (
        config.micro_batch
        * config.rank_seq
        * config.model.hidden
        * size
        // (p.tp if p.sequence_parallel else 1)
    )
    yield "send", "pp", "activation", sends, sends * payload
    for place in held_placements(config, shown, tp_rank).values():
        if "pp" in place.sum_over:
            shards = (
                [
                    u.numel // p.replicas
                    for u in held_units(config, shown, tp_rank)
                    if any(one.name == place.name for one in u.slices)
                ]
                if p.zero
                else [place.numel]
            )
            yield "send", "pp", "gradient", 1, sum(shards) * size


def _control(config: TrainConfig) -> Iterator[Item]:
    """The squared norm, for clipping and to agree on an overflow."""
    if config.clip > 0 or config.precision == "fp16":
        data = [data_axis(config)] if config.parallel.zero else []
        for axis in (*data, "pp", "tp"):
            yield "all_reduce", axis, "control", 1, _NORM_BYTES
