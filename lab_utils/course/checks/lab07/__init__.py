"""The checks of lab 07."""

from __future__ import annotations

from .shares import EXERCISE as share_tensor_parallelism

__all__ = ["share_tensor_parallelism"]
