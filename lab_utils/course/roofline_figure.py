"""The plotly figure of lesson 01: measured kernels as dots under the roofs of the machine that ran
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..figure_style import DARK, INK, TEMPLATE
from ..i18n import t
from ..measure.roofline import Dot, Roof

if TYPE_CHECKING:
    import plotly.graph_objects as go

_SYMBOLS = ("circle", "diamond", "square", "cross")


def roofline_figure(roof: Roof, series: Mapping[str, Sequence[Dot]]) -> go.Figure:
    """The roof as a line over intensity, both axes logarithmic; each series of dots named at its
    dots."""
    import plotly.graph_objects as go

    dots = [dot for found in series.values() for dot in found]
    least = min(0.1, *(dot.intensity for dot in dots)) / 1.5
    most = max(10 * roof.ridge, *(dot.intensity for dot in dots)) * 1.5
    ends = [least, roof.ridge, most]
    figure = go.Figure(
        go.Scatter(
            x=ends,
            y=[roof.at(x) / 1e9 for x in ends],
            mode="lines",
            line=dict(color=INK, width=2),
            name=t("the roof", "屋顶线"),
        )
    )
    for (name, found), symbol in zip(series.items(), _SYMBOLS, strict=False):
        figure.add_trace(
            go.Scatter(
                x=[dot.intensity for dot in found],
                y=[dot.flops_per_second / 1e9 for dot in found],
                mode="markers+text",
                text=[dot.name for dot in found],
                textposition="bottom right",
                marker=dict(size=9, color=DARK, symbol=symbol),
                name=name,
            )
        )
    return (
        figure.update_layout(
            template=TEMPLATE,
            height=400,
            margin=dict(l=70, r=20, t=20, b=20),
            legend=dict(orientation="h", y=-0.2),
        )
        .update_xaxes(type="log", title_text=t("FLOPs per byte", "每字节的浮点运算量"))
        .update_yaxes(type="log", title_text="GFLOP/s")
    )
