"""The checks of lab 06, ZeRO: states shared out, gradients freed as they are summed, weights gathered and freed around a block.

`examine` in each module runs given cases and says what they came to; the checks here run the visible ones. What an
answer holds is read off live storages, what it sends off the axis's ledger, and its weights are held against one process.
"""

from __future__ import annotations

from typing import Any

from ..verdict import Result
from . import blocks, gradients, update

__all__ = ["blocks", "gradients", "update", "zero1", "zero2", "zero3"]


def zero1(answer: Any) -> Result:
    """Exercise 1: `answer(model, axis, make_optimizer)`; after a backward pass `step()` updates, each rank 1/N of the weights."""
    return Result.of("zero1", update.examine(answer, update.VISIBLE), answer, update.HINTS)


def zero2(answer: Any) -> Result:
    """Exercise 2: like exercise 1, but gradients leave during backward; `step(max_norm)` clips and returns the model's norm."""
    return Result.of("zero2", gradients.examine(answer, gradients.VISIBLE), answer, gradients.HINTS)


def zero3(answer: Any) -> Result:
    """Exercise 3: `answer(blocks, axis)` cuts them; its `shards` are for the optimizer, and every block gathers and frees itself."""
    return Result.of("zero3", blocks.examine(answer, blocks.VISIBLE), answer, blocks.HINTS)
