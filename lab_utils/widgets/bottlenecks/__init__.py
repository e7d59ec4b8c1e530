"""Operations as dots under the roofs of a machine, the step they make, and what limits it."""

from .tool import explorer

__all__ = ["explorer"]
