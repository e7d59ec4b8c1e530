"""The checks of lab 01."""

from __future__ import annotations

from .shares import EXERCISE as share_bottlenecks

__all__ = ["share_bottlenecks"]
