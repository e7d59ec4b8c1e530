"""The checks of lab 13, schedules: three schedules as factors, a loop that counts updates, a
learning-rate range test on several ranks, and cool-downs branched off one run.

Exercises do not lean on each other: the loop is given right factors, whatever the learner's own do.
"""

from __future__ import annotations

from .branch import EXERCISE as cool_branches
from .driven import EXERCISE as scheduled_run
from .factor import EXERCISE as rate_factor
from .finder import EXERCISE as find_rate

__all__ = ["cool_branches", "find_rate", "rate_factor", "scheduled_run"]
