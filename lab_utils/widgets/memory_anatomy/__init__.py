"""What fills a GPU's memory, term by term, for any model, layout and GPU."""

from .tool import explorer

__all__ = ["explorer"]
