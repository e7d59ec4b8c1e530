"""Pipeline schedules drawn from the data that the executor runs: bubbles, what is in flight, and
where the layers are cut."""

from .tool import explorer

__all__ = ["explorer"]
