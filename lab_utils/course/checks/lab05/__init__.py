"""The checks of lab 05, data parallelism: uneven chunks, the ring with any operation, buckets that overlap.

`examine` in each module runs given cases and says what they came to; the checks here run the visible ones. Exercises do
not lean on each other: the ring is judged with a right `chunk_bounds`, whatever the learner's own does.
"""

from __future__ import annotations

from typing import Any

from ..verdict import Result
from . import buckets, chunks, ring

__all__ = ["bucketed", "buckets", "chunk_bounds", "chunks", "ring", "ring_all_reduce"]


def chunk_bounds(answer: Any) -> Result:
    """Exercise 1: `answer(numel, n)` gives n (begin, end) pairs, nearly equal, in order, without gap or overlap."""
    return Result.of("chunk_bounds", chunks.examine(answer, chunks.VISIBLE), answer, chunks.HINTS)


def ring_all_reduce(answer: Any) -> Result:
    """Exercise 2: `answer(tensor, axis, combine)` all-reduces in place, over `axis.exchange` between neighbours alone."""
    return Result.of("ring_all_reduce", ring.examine(answer, ring.VISIBLE), answer, ring.HINTS)


def bucketed(answer: Any) -> Result:
    """Exercise 3: `answer(model, axis, bucket_bytes)` sends full buckets during backward; `finish()` leaves mean gradients."""
    return Result.of("bucketed", buckets.examine(answer, buckets.VISIBLE), answer, buckets.HINTS)
