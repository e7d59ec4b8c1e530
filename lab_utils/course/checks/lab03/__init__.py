"""The checks of lab 03, memory: micro-batches added up, a segment computed twice, and where to cut
for a budget.

An answer works in a process of its own, so that one which never ends, or ends the process, still
gets a verdict. Exercises do not lean on each other: plans are carried out with the course's own
checkpoint, whatever the learner's does.
"""

from __future__ import annotations

from .accumulation import EXERCISE as accumulate
from .plans import EXERCISE as plan_checkpoints
from .segments import EXERCISE as checkpoint

__all__ = ["accumulate", "checkpoint", "plan_checkpoints"]
