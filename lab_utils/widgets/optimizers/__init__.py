"""Two optimizers against each other, in recorded real runs and in a valley that is computed."""

from .tool import explorer

__all__ = ["explorer"]
