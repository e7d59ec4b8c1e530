"""Which layers keep their activations, what that saves through a step, and what it costs."""

from .tool import explorer

__all__ = ["explorer"]
