"""What the ranks of a layer send one another, as data."""

from __future__ import annotations

from typing import NamedTuple


class Message(NamedTuple):
    """One collective of one micro-batch: `bytes` of the unsharded tensor, in the pass that `phase`
    names."""

    op: str
    axis: str
    purpose: str
    phase: str  # "forward", "backward" or "recompute"
    bytes: int
