"""Learning-rate schedules over the runs that they made, all of them recorded."""

from .tool import explorer

__all__ = ["explorer"]
