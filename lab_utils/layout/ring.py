"""The ring, as data: who sends which chunk to whom in every step.

N ranks stand in a circle and cut a tensor into N chunks. In N−1 steps each chunk travels once
around the circle and collects every rank's contribution (reduce-scatter: rank r ends with the whole
sum of chunk r); N−1 more steps pass the finished chunks on (all-gather). Patarasuk and Yuan 2009,
"Bandwidth optimal all-reduce algorithms for clusters of workstations".
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Hop(NamedTuple):
    """One message: `sender` sends `chunk` to `receiver`, which adds it to its own or overwrites its
    own."""

    sender: int
    receiver: int
    chunk: int
    action: Literal["add", "copy"]


def ring_reduce_scatter(n: int) -> list[list[Hop]]:
    """The n−1 steps after which rank r holds the sum of chunk r; a step lists one hop per rank, in
    rank order."""
    return [
        [Hop(r, (r + 1) % n, (r - 1 - step) % n, "add") for r in range(n)] for step in range(n - 1)
    ]


def ring_all_gather(n: int) -> list[list[Hop]]:
    """The n−1 steps that carry chunk r from rank r to everyone."""
    return [
        [Hop(r, (r + 1) % n, (r - step) % n, "copy") for r in range(n)] for step in range(n - 1)
    ]


def ring_all_reduce(n: int) -> list[list[Hop]]:
    """Both halves: 2(n−1) steps."""
    return ring_reduce_scatter(n) + ring_all_gather(n)
