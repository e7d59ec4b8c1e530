"""What tensor parallelism sends in a step, with and without sequence parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from ..config import TrainConfig
from .memory.terms import element_bytes
from .program.rank_shape import held_placements, held_units
from .program.stage_parts import parts_of_stages

Item = tuple[str, str, str, int, int]  # op, axis, purpose, calls, bytes in all


def tensor_parallel_items(config: TrainConfig, pp_rank: int, partial: int) -> Iterator[Item]:
    """What a step sends along tp; `partial`: elements of gradients that are summands."""
    p, model, m = config.parallel, config.model, config.micro_batches
    tokens = config.micro_batch * config.rank_seq
    held = element_bytes(config)
    # what autocast hands to matrix products
    inside = 2 if config.precision in ("bf16", "fp16") else held
    parts = [part for stage in parts_of_stages(config, pp_rank).values() for part in stage]
    again = set(config.recomputed_layers())
    # (entering, leaving) a region: forward, forward again if recomputed, backward
    for part in parts:
        if part == "embed":
            yield from _region(
                p.sequence_parallel, m, tokens * model.hidden * held, leave=1, leave_backward=1
            )
        elif part == "head_loss":
            yield from _region(
                p.sequence_parallel, m, tokens * model.hidden * inside, enter=1, enter_backward=1
            )
            # largest logit; sum and target's logit, in fp32
            yield "all_reduce", "tp", "activation", 2 * m, 3 * m * tokens * 4
        else:
            forwards = 2 if int(part.split(".")[1]) in again else 1
            crossings = dict(
                enter=2 * forwards, leave=2 * forwards, enter_backward=2, leave_backward=2
            )
            yield from _region(p.sequence_parallel, m, tokens * model.hidden * inside, **crossings)
    if partial:
        yield "all_reduce", "tp", "gradient", 1, partial * held


def _region(
    scattered: bool,
    m: int,
    payload: int,
    *,
    enter: int = 0,
    leave: int = 0,
    enter_backward: int = 0,
    leave_backward: int = 0,
) -> Iterator[Item]:
    """`payload` bytes a crossing, m times. Backward, the way in sums and the way out, under
    sequence parallelism, gathers; there the way in also gathers the saved shard again."""
    if scattered:
        gathers, scatters = (
            m * (enter + leave_backward + enter_backward),
            m * (leave + enter_backward),
        )
        yield "all_gather", "tp", "activation", gathers, gathers * payload
        yield "reduce_scatter", "tp", "activation", scatters, scatters * payload
    else:
        sums = m * (leave + enter_backward)
        yield "all_reduce", "tp", "activation", sums, sums * payload


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
