"""Tensor parallelism: who holds which part of a block, where ranks must talk, and what it costs."""

from .tool import explorer

__all__ = ["explorer"]
