"""Run a function on N ranks, from a notebook cell, a script or under torchrun: `launch(fn, nproc,
*args)`.

The ranks are real processes with torch.distributed ready. What they print comes out line by line
with the rank before it, what they return comes back as a list by rank, and whatever goes wrong ends
in one LaunchError that names the rank.
"""

from ..verb import callable_package
from .errors import LaunchError
from .supervise import launch
from .worker import emit

__all__ = ["LaunchError", "emit", "launch"]

callable_package(__name__, launch)
