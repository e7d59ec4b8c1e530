"""The checks of lab 09, 3D parallelism: the groups of any order of axes, and layouts for three
clusters, with what they will hold and lose said in advance."""

from __future__ import annotations

from .groups import EXERCISE as rank_groups
from .sealed import EXERCISE as sealed_layouts

__all__ = ["rank_groups", "sealed_layouts"]
