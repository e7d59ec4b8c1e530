"""The figure of a comparison: terms side by side, so that the wrong one is seen before a number is
read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .figure_style import DARK, LIGHT, TEMPLATE, WORST, WRONG
from .i18n import t
from .text import difference

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from .comparison import Comparison, Row

_UNITS = {"job": ("FLOPs", 1), "memory": ("bytes", 1), "traffic": ("bytes", 1), "time": ("ms", 1e3)}


def comparison_figure(comparison: Comparison) -> go.Figure:
    """One panel per group, a pair of bars per term: light the estimate, dark the measurement.

    A measurement that the estimate missed is orange, the furthest off red, and its error stands
    beside it. Terms that one side lacks or that are 0 on both, and counts of calls, are left out.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    rows = [
        r
        for r in comparison.rows
        if r.error is not None and (r.estimated or r.measured) and not r.term.endswith("calls")
    ]
    groups = list(dict.fromkeys(r.group for r in rows))
    several, worst = len({r.rank for r in rows}) > 1, max((abs(r.error) for r in rows), default=0)
    by_group = [[r for r in rows if r.group == group] for group in groups]
    figure = make_subplots(
        rows=max(1, len(groups)),
        cols=1,
        row_heights=[len(found) for found in by_group] or None,
        vertical_spacing=min(0.12, 0.5 / max(1, len(groups))),
    )
    for i, found in enumerate(by_group, start=1):
        unit, factor = _UNITS[groups[i - 1]]
        names = [f"rank {r.rank} · {r.label}" if several else r.label for r in found]
        bars = (
            ("estimated", t("estimated", "估算"), [LIGHT] * len(found), [""] * len(found)),
            (
                "measured",
                t("measured", "实测"),
                [_colour(r, worst) for r in found],
                [_said(r) for r in found],
            ),
        )
        for side, name, colours, said in bars:
            values = [factor * getattr(r, side) for r in found]
            figure.add_trace(
                go.Bar(
                    x=values,
                    y=names,
                    orientation="h",
                    name=name,
                    marker_color=colours,
                    text=said,
                    textposition="outside",
                    cliponaxis=False,
                    showlegend=i == 1,
                    legendgroup=side,
                    hovertemplate=f"%{{y}}<br>{name} %{{x:,.6~g}} {unit}<extra></extra>",
                ),
                row=i,
                col=1,
            )
        most = max((factor * max(r.estimated, r.measured) for r in found), default=1)
        figure.update_xaxes(
            title_text=t(unit, {"bytes": "字节", "ms": "毫秒", "FLOPs": "浮点运算量"}[unit]),
            range=[0, 1.16 * most],
            row=i,
            col=1,
        )
        figure.update_yaxes(autorange="reversed", row=i, col=1)
    return figure.update_layout(
        template=TEMPLATE,
        barmode="group",
        bargap=0.25,
        height=120 + 40 * len(rows) + 60 * len(groups),
        legend=dict(orientation="h", y=1.0, yanchor="bottom", traceorder="normal"),
        margin=dict(l=200, r=40, t=40, b=50),
    )


def _colour(row: Row, worst: float) -> str:
    if row.error == 0:
        return DARK
    return WORST if abs(row.error) == worst else WRONG


def _said(row: Row) -> str:
    return difference(row.error) if row.error == 0 else f"<b>{difference(row.error)}</b>"
