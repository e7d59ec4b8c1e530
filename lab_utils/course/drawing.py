"""Figures of matplotlib as lessons show them: distributions, spectra, other people's plots.

    with drawing(t("what it shows", "图中所示"), columns=2) as (left, right):
        left.hist(numbers)

The result is an SVG in the page whose words are words: the reader's own fonts draw them, so 汉字
need no font here, and one figure reads on a light ground and on a dark one (figure_style.py). It is
the same to the byte on every machine with the same matplotlib, whatever fonts there are.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ..figure_style import DARK, FONT, INK, LIGHT, WORST, WRONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 7.4  # inches
GREEN, VIOLET = "#5f8f3f", "#8a6fb0"
HAN = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\u3000-\u303f]")
AS_WIDE = "\u2014"  # a dash of one em in matplotlib's own font, as wide as a 汉字 in any


class Drawing:
    """A finished figure: `svg`, and `alt`, which says what it shows."""

    def __init__(self, svg: str, alt: str) -> None:
        self.svg, self.alt = svg, alt

    def __repr__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.svg, "text/plain": self.alt}


@contextmanager
def drawing(alt: str, columns: int = 1, height: float = 3.0) -> Iterator[Axes | Sequence[Axes]]:
    """One axes, or `columns` of them side by side, `height` inches high; displayed when the block
    ends without an error. Do not use pyplot in the block."""
    from IPython.display import display
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import RendererSVG
    from matplotlib.figure import Figure

    plain = RendererSVG.get_text_width_height_descent

    def measured(self: RendererSVG, s: str, *more: Any) -> tuple[float, float, float]:
        return plain(self, HAN.sub(AS_WIDE, s), *more)

    with (
        rc_context(_style(alt)),
        patch.object(RendererSVG, "get_text_width_height_descent", measured),
    ):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
        yield axes[0] if columns == 1 else tuple(axes)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    display(Drawing(_for_the_page(written.getvalue(), alt), alt))


def _style(alt: str) -> dict[str, Any]:
    from matplotlib import cycler

    inks = "text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"
    return dict.fromkeys(inks, INK) | {
        "svg.fonttype": "none",
        # ids that several figures of a page do not share
        "svg.hashsalt": alt,
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.prop_cycle": cycler(color=[DARK, WRONG, GREEN, VIOLET, WORST, LIGHT]),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": True,
        "grid.color": INK,
        "grid.alpha": 0.25,
        "legend.frameon": False,
        "lines.linewidth": 1.5,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
    }


def _for_the_page(svg: str, alt: str) -> str:
    """The svg element alone, with its alternative text, as wide as there is room for it."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r" <metadata>.*?</metadata>\n", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family: 'DejaVu Sans'[^;\"]*;? ?", "", svg)
    head, rest = svg.split(">", 1)
    style = f"width:100%;max-width:{WIDTH * 100:.0f}px;font-family:{FONT}"
    head = re.sub(r' (width|height|version)="[^"]*"', "", head)
    head += f' role="img" aria-label="{html.escape(alt)}" style="{style}"'
    return f"{head}>{rest}"
