"""One batch through a model whose layers are dealt out to several devices: who works when, and who
holds how much."""

from .tool import explorer

__all__ = ["explorer"]
