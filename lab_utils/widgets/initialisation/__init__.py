"""Signals through the depth of untrained GPTs, and muP's coordinate check: all of it measured."""

from .tool import explorer

__all__ = ["explorer"]
