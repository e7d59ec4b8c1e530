"""The same training step by two engines, side by side, in one run.

Both contenders live in the same processes and take turns: a block of steps of one, a block of the
other, the order swapped in every pair, so that a machine that slows down slows both. The figure is
the median over pairs of the ratio of throughputs; its spread stands beside it. An engine against
itself shows how much of a ratio is noise.
"""

from .report import as_json, as_text
from .rows import STRATEGIES, Ratio, Row, config_for, rows_for
from .turns import bench, deepspeed_runs

__all__ = [
    "deepspeed_runs",
    "STRATEGIES",
    "Ratio",
    "Row",
    "as_json",
    "as_text",
    "bench",
    "config_for",
    "rows_for",
]
