"""Tables: aligned text on a terminal, Han characters counted as two columns, and a real table in a
notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any
from unicodedata import east_asian_width

from .i18n import t


class Table(str):
    """A table as aligned text; a notebook that displays it, rather than prints it, shows a real
    table.

    A page's font seldom makes a Han character exactly two Latin ones wide, so that text is aligned
    on a terminal only.
    """

    cells: Sequence[Sequence[str]]

    def __new__(cls, text: str, cells: Sequence[Sequence[str]] = ()) -> Table:
        """`text` is the same rows as `cells`, aligned."""
        self = super().__new__(cls, text)
        self.cells = cells
        return self

    def _repr_html_(self) -> str:
        head, *rows = self.cells
        sides = [
            "left",
            *(
                "right" if any(map(_is_number, column)) else "left"
                for column in list(zip(*rows, strict=True))[1:]
            ),
        ]
        # an empty cell heads nothing
        names = "".join(map(_html, head, sides, ("th" if name else "td" for name in head)))
        lines = [f"<tr>{''.join(map(_html, row, sides))}</tr>" for row in rows]
        return "\n".join(
            [
                '<table style="font-variant-numeric:tabular-nums;word-break:normal">',
                f"<thead><tr>{names}</tr></thead>",
                "<tbody>",
                *lines,
                "</tbody>",
                "</table>",
            ]
        )

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str.__str__(self))


def table(rows: Sequence[Sequence[Any]]) -> Table:
    """Rows as a table, the first of them its head: the first column to the left, the others to the
    right (in a notebook only those that hold numbers).

    Whole numbers get thousands separators, True and False become yes and no, everything else is
    shown by `str`.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
    lines = (
        "   ".join(
            _padded(cell, width, left=i == 0)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )
    return Table("\n".join(lines), cells)


def columns(text: str) -> int:
    """How many columns a terminal gives the text."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return t("yes", "是") if value else t("no", "否")
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(cell: str) -> bool:
    return cell.lstrip("+-−")[:1].isdigit()


def _html(cell: str, side: str, tag: str = "td") -> str:
    # a number and its unit stay on one line; a phrase breaks between its words
    short = _is_number(cell) and columns(cell) <= 20
    wrap = ";white-space:nowrap" if short else ""
    return f'<{tag} style="text-align:{side}{wrap}">{html.escape(cell, quote=False)}</{tag}>'


def _padded(cell: str, width: int, left: bool) -> str:
    space = " " * (width - columns(cell))
    return cell + space if left else space + cell


def difference(error: float | None) -> str:
    """A relative difference in percent; "exact" where there is none, nothing for None."""
    if error is None:
        return ""
    if error == 0:
        return t("exact", "完全一致")
    # a few bytes of millions are an error too
    return f"{error:+.1%}" if abs(error) >= 5e-4 else f"{100 * error:+.1g}%"
