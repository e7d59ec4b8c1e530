"""The checks of lab 05, data parallelism: uneven chunks, the ring with any operation, buckets that
overlap.

Exercises do not lean on each other: the ring is judged with a right `chunk_bounds`, whatever the
learner's own does.
"""

from __future__ import annotations

from .buckets import EXERCISE as bucketed
from .chunks import EXERCISE as chunk_bounds
from .ring import EXERCISE as ring_all_reduce

__all__ = ["bucketed", "chunk_bounds", "ring_all_reduce"]
