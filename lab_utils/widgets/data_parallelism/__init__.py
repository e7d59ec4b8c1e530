"""One step of data parallelism: what moves between ranks, and what it costs."""

from .tool import explorer

__all__ = ["explorer"]
