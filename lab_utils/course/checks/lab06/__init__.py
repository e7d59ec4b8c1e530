"""The checks of lab 06, ZeRO: states shared out, gradients freed as they are summed, weights
gathered and freed around a block.

What an answer holds is read off everything that is alive, what it sends off torch.distributed, and
its weights are held against one process.
"""

from __future__ import annotations

from .blocks import EXERCISE as zero3
from .gradients import EXERCISE as zero2
from .update import EXERCISE as zero1

__all__ = ["zero1", "zero2", "zero3"]
