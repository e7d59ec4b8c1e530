"""Plain-text tables that stay aligned when Han characters, two columns wide, stand among Latin ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unicodedata import east_asian_width

from .i18n import t


def table(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as aligned text: the first column to the left, the others to the right.

    Whole numbers get thousands separators, True and False become yes and no, everything else is shown by `str`.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    return "\n".join("   ".join(_padded(cell, width, left=i == 0) for i, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip() for row in cells)


def columns(text: str) -> int:
    """How many columns a terminal gives the text."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return t("yes", "是") if value else t("no", "否")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _padded(cell: str, width: int, left: bool) -> str:
    space = " " * (width - columns(cell))
    return cell + space if left else space + cell
