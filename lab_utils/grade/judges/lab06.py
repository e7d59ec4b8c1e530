"""Lab 06: ZeRO."""

from .zero import ZERO1, ZERO2, ZERO3

JUDGES = (ZERO1, ZERO2, ZERO3)
