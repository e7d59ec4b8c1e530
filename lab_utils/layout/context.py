"""Context parallelism, as data: which tokens of a sequence a rank holds, and in the ring which of
its queries meet which keys in which step.

A token attends to those before it, so the last tokens have most to do: were the sequence cut into N
runs, the last rank would have (2N − 1)/N times the mean. The ring therefore cuts it into 2N chunks
and gives rank r chunks r and 2N − 1 − r, an early and a late one ("zigzag"; Brandon et al. 2023,
"Striped Attention", section 3, names the imbalance): then all ranks have the same to do in every
step. Where heads are swapped for tokens every rank sees the whole sequence, so plain runs will do.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..config import ContextParallel, TrainConfig


def runs_of_rank(seq: int, ranks: int, rank: int, kind: ContextParallel) -> tuple[range, ...]:
    """The positions of a sequence that a rank holds, in the order in which they lie there; equally
    long runs."""
    if ranks == 1:
        return (range(seq),)
    if kind == "all-to-all":
        return (_chunk(seq // ranks, rank),)
    return tuple(_chunk(seq // (2 * ranks), i) for i in (rank, 2 * ranks - 1 - rank))


def _chunk(length: int, number: int) -> range:
    return range(number * length, (number + 1) * length)


class Meeting(NamedTuple):
    """One step of the ring: this rank's queries with the keys and values of rank `source`.

    `queries`: all of ours or the later half; `keys`: all of theirs or the earlier half. Only our
    own keys need a causal mask (`causal`); of others' every one that is met lies before.
    """

    source: int
    queries: Literal["all", "later"] = "all"
    keys: Literal["all", "earlier"] = "all"
    causal: bool = False


def meetings(ranks: int, rank: int) -> tuple[Meeting, ...]:
    """What a rank meets in the N steps of the ring, its own keys first, then its predecessor's.

    With zigzag shares, rank i's early chunk lies before both of ours if i < r, and both of theirs
    before our late one if i > r: half a square either way, as is the causal half of our own.
    """
    found = [Meeting(rank, causal=True)]
    for step in range(1, ranks):
        source = (rank - step) % ranks
        found.append(
            Meeting(source, keys="earlier") if source < rank else Meeting(source, queries="later")
        )
    return tuple(found)


def data_axis(config: TrainConfig) -> str:
    """The axis over which gradients are summed and ZeRO cuts: "dp", "cp", or both as one."""
    p = config.parallel
    return "dp" if p.cp == 1 else "cp" if p.dp == 1 else "dp_cp"
