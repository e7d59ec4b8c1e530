"""The checks of lab 11, initialisation and stability: weights that keep a signal level at two
depths, clipping by the norm, and the norm of gradients that lie in parts on real ranks."""

from __future__ import annotations

from .clipping import EXERCISE as clip_gradients
from .level import EXERCISE as first_weights
from .norm import EXERCISE as global_norm

__all__ = ["clip_gradients", "first_weights", "global_norm"]
