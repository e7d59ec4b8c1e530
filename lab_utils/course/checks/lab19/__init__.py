"""The checks of lab 19, debugging: a training script in plain torch, run with the learner's part in
the place of its own, and judged by what it did."""

from __future__ import annotations

from .checkpoint import EXERCISE as resume
from .mixed import EXERCISE as train_mixed
from .prepared import EXERCISE as prepare
from .training import EXERCISE as train_epoch
from .validation import EXERCISE as validate

__all__ = ["prepare", "resume", "train_epoch", "train_mixed", "validate"]
