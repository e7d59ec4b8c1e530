"""ZeRO: who holds which shard through a step, what that saves and what it sends."""

from .tool import explorer

__all__ = ["explorer"]
