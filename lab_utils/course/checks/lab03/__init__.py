"""The checks of lab 03, memory: micro-batches added up, a segment computed twice, and where to cut for a budget.

`examine` in each module runs given cases and says what they came to; the checks here run the visible ones. An answer works
in a process of its own, so that one which never ends, or ends the process, still gets a verdict. Exercises do not lean on
each other: plans are carried out with the course's own checkpoint, whatever the learner's does.
"""

from __future__ import annotations

from typing import Any

from ..verdict import Result
from . import accumulation, plans, segments

__all__ = ["accumulate", "accumulation", "checkpoint", "plan_checkpoints", "plans", "segments"]


def accumulate(answer: Any) -> Result:
    """Exercise 1: `answer(model, optimizer, micro_batches, group)` steps once per group, as on one big batch, and returns each step's loss."""
    return Result.of("accumulate", accumulation.examine(answer, accumulation.VISIBLE), answer, accumulation.HINTS)


def checkpoint(answer: Any) -> Result:
    """Exercise 2: `answer(layers, keep_as)` is called as (x, *others), keeps its inputs alone, and runs its layers again for backward."""
    return Result.of("checkpoint", segments.examine(answer, segments.VISIBLE), answer, segments.HINTS)


def plan_checkpoints(answer: Any) -> Result:
    """Exercise 3: `answer(layers, budget)` gives the (begin, end) segments to recompute: within the budget, with the fewest FLOPs."""
    return Result.of("plan_checkpoints", plans.examine(answer, plans.VISIBLE), answer, plans.HINTS)
