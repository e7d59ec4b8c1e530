"""How many items the ranks hold."""

from .tool import explorer

__all__ = ["explorer"]
