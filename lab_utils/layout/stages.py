"""Which layers make up which pipeline stage. A rank holds one stage, or with virtual stages
several."""

from __future__ import annotations


def part_of(count: int, parts: int, index: int) -> tuple[int, int]:
    """(start, length) of part `index` when `count` things are shared out in order; the first parts
    take what is left over."""
    each, extra = divmod(count, parts)
    return index * each + min(index, extra), each + (index < extra)


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The block numbers of every stage. Uneven counts: the first stages get one more, the last also
    has the head to do."""
    return tuple(
        range(start, start + length)
        for start, length in (part_of(layers, stages, s) for s in range(stages))
    )


def stages_of_rank(pp_rank: int, pp: int, virtual_stages: int) -> tuple[int, ...]:
    """The stages on one pipeline rank, in forward order: stage s lives on rank s % pp."""
    return tuple(range(pp_rank, pp * virtual_stages, pp))
