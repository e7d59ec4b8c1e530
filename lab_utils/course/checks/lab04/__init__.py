"""The checks of lab 04, mixed precision: a loss scaler that all ranks agree on and that forgives
once, master weights in four bytes, and one whole step of training with a loss scale.

Exercises do not lean on each other: the step is judged with a right scaler, whatever the learner's
own does.
"""

from __future__ import annotations

from .amp import EXERCISE as amp_step
from .master import EXERCISE as master_weights
from .scaler import EXERCISE as loss_scaler

__all__ = ["amp_step", "loss_scaler", "master_weights"]
