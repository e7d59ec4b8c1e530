"""The checks of lab 09, 3D parallelism: the groups of any order of axes, as lists and on real
ranks; layouts for three clusters, with what they hold and lose said in advance; and one step on
three axes by hand.

Exercises do not lean on each other: groups are made with a right `group_of`, and the step is given
right groups.
"""

from __future__ import annotations

from .grid_step import EXERCISE as grid_step
from .groups import EXERCISE as rank_groups
from .made import EXERCISE as make_groups
from .sealed import EXERCISE as sealed_layouts

__all__ = ["grid_step", "make_groups", "rank_groups", "sealed_layouts"]
