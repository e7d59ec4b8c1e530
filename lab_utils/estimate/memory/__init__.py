"""Bytes: what a rank holds all along, what is alive at every moment of a step, and the closed forms
that equal it."""

from __future__ import annotations

from .terms import element_bytes, memory_of_rank, model_state_bytes

__all__ = ["element_bytes", "memory_of_rank", "model_state_bytes"]
