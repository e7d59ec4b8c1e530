"""`check.NAME(answer)`: judge the answer to an exercise, on real processes, and say so in the learner's language.

Each check returns a Result: what was expected, what came, one hint; or, after a pass, what was really measured. What a
check believes are live tensors, the ledger, and the messages that went out, never a formula held against itself.
"""

from __future__ import annotations

from .checks.lab03 import accumulate, checkpoint, plan_checkpoints
from .checks.lab05 import bucketed, chunk_bounds, ring_all_reduce
from .checks.lab06 import zero1, zero2, zero3
from .checks.verdict import Failure, Measured, Result

__all__ = [
    "Failure", "Measured", "Result", "accumulate", "bucketed", "checkpoint", "chunk_bounds", "plan_checkpoints", "ring_all_reduce", "zero1", "zero2",
    "zero3",
]  # fmt: skip
