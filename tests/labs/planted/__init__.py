"""Answers to the labs' exercises, by the name of the check: RIGHT ones that must pass, WRONG ones as (answer, criterion) that must fail on it.

Every answer stands alone, as a learner would write it.
"""

from __future__ import annotations

from . import (
    accumulation,
    accumulation_wrong,
    blocks,
    blocks_memory_wrong,
    blocks_values_wrong,
    buckets,
    buckets_wrong,
    chunks,
    gradients,
    gradients_wrong,
    plans,
    ring,
    segments,
    segments_gradients_wrong,
    segments_kept_wrong,
    update,
)

RIGHT = {
    "accumulate": accumulation.RIGHT,
    "checkpoint": segments.RIGHT,
    "plan_checkpoints": plans.RIGHT,
    "chunk_bounds": chunks.RIGHT,
    "ring_all_reduce": ring.RIGHT,
    "bucketed": buckets.RIGHT,
    "zero1": update.RIGHT,
    "zero2": gradients.RIGHT,
    "zero3": blocks.RIGHT,
}
WRONG = {
    "accumulate": accumulation_wrong.WRONG,
    "checkpoint": [*segments_kept_wrong.WRONG, *segments_gradients_wrong.WRONG],
    "plan_checkpoints": plans.WRONG,
    "chunk_bounds": chunks.WRONG,
    "ring_all_reduce": ring.WRONG,
    "bucketed": buckets_wrong.WRONG,
    "zero1": update.WRONG,
    "zero2": gradients_wrong.WRONG,
    "zero3": [*blocks_memory_wrong.WRONG, *blocks_values_wrong.WRONG],
}
NAMED = {answer.__name__: answer for answers in RIGHT.values() for answer in answers} | {
    answer.__name__: answer for answers in WRONG.values() for answer, _ in answers}
