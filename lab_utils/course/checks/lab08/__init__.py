"""The checks of lab 08, pipeline parallelism: one step's two easily missed lines, layers cut into
stages, the 1F1B generator, and a schedule with a smaller bubble in the same memory.

Exercises do not lean on each other: a step is run in the order of right schedules, and a cut too.
"""

from __future__ import annotations

from .cuts import EXERCISE as cut_layers
from .less_bubble import EXERCISE as less_bubble
from .one_f_one_b import EXERCISE as one_f_one_b
from .step import EXERCISE as pipeline_step

__all__ = ["cut_layers", "less_bubble", "one_f_one_b", "pipeline_step"]
