"""A number in every format of training, and real gradients under them."""

from .recorded import gradient_sizes, runs
from .tool import explorer

__all__ = ["explorer", "gradient_sizes", "runs"]
