"""The checks of lab 01, bottlenecks: a roof fitted to measured dots, a cause named from evidence,
three slow parts of a step mended, a loader that never lets the step wait.

Roofs are held against dots, the dots of this machine among them; causes against what each resource
explains of a step; mends against what they mend, in the same minute; a loader is watched while it
reads: how many at once, how far ahead.
"""

from __future__ import annotations

from .causes import EXERCISE as diagnose
from .loading import EXERCISE as prefetch
from .mends import EXERCISE as mend
from .roofs import EXERCISE as fit_roof

__all__ = ["diagnose", "fit_roof", "mend", "prefetch"]
