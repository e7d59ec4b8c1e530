"""The challenge of the schedule tool: let the rate fall, keep the end open, and tune both."""

from __future__ import annotations

from collections.abc import Sequence

from ..frame.challenge import Step
from ..frame.controls import Control


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """A falling rate; one whose end may be put off; the best that was run."""
    return ()
