"""Number formats of training as plain Python: bits, rounding, overflow and underflow, and blocks
that share a scale. Needs no torch; tests/formats holds it to torch's own dtypes."""

from .blocks import BLOCKS, Block, Quantised
from .format import FORMATS, Format
from .rounding import Rounded, round_stochastically, round_to_nearest

__all__ = [
    "BLOCKS",
    "FORMATS",
    "Block",
    "Format",
    "Quantised",
    "Rounded",
    "round_stochastically",
    "round_to_nearest",
]
