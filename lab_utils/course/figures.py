"""Plotly figures of measured runs that lessons share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..i18n import t

if TYPE_CHECKING:
    import plotly.graph_objects as go

INK, LIGHT, DARK = "#1b1b1b", "#8fb8de", "#1f4e79"
FONT = "system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', 'WenQuanYi Micro Hei', sans-serif"


def trace_figure(traces: Mapping[str, Sequence[tuple[float, str, str]]]) -> go.Figure:
    """Steps as the ledgers recorded them, one above the other: a tick per gradient, a bar from a message's departure
    until it was no longer waited for, dark from the moment it was waited for. `traces`: title → `Ledger.trace()`."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=len(traces), cols=1, shared_xaxes=True, subplot_titles=list(traces), vertical_spacing=0.16)
    for row, trace in enumerate(traces.values(), start=1):
        zero = min(at for at, _, _ in trace)
        moments = {kind: {name: 1e3 * (at - zero) for at, k, name in trace if k == kind} for kind in ("gradient", "issue", "wait", "done")}
        sent = list(moments["issue"])
        figure.add_trace(go.Scatter(
            x=list(moments["gradient"].values()), y=[t("gradients", "梯度")] * len(moments["gradient"]), mode="markers", text=list(moments["gradient"]),
            marker=dict(symbol="line-ns-open", size=14, color=INK), name=t("a gradient exists", "一个梯度产生"), showlegend=row == 1), row=row, col=1)
        for begin, end, colour, name in (("issue", "wait", LIGHT, t("under way, not waited for", "在途，未等待")), ("wait", "done", DARK, t("waited for",
                                                                                                                                      "等待中"))):
            figure.add_trace(go.Bar(
                x=[moments[end][s] - moments[begin][s] for s in sent], base=[moments[begin][s] for s in sent], y=[t("messages", "消息")] * len(sent),
                orientation="h", marker=dict(color=colour, line=dict(color="white", width=1)), text=sent if len(sent) < 8 else None, textposition="none",
                hovertext=sent, name=name, showlegend=row == 1), row=row, col=1)
    return figure.update_layout(
        barmode="overlay", height=170 * len(traces) + 110, template="simple_white", font_family=FONT, legend=dict(orientation="h", y=-0.18),
        margin=dict(l=90, r=20, t=40, b=20)).update_xaxes(title_text="ms", row=len(traces), col=1)  # fmt: skip


def curves_figure(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], x_title: str, y_title: str, log_x: bool = False) -> go.Figure:
    """Named curves (name → (x, y)) with a mark at every computed point; a logarithmic x has its ticks at those points."""
    import plotly.graph_objects as go

    colours, dashes = (DARK, "#c45a00", "#5f8f3f", "#8a6fb0"), ("solid", "dash", "dot", "dashdot")
    figure = go.Figure()
    for i, (name, (x, y)) in enumerate(curves.items()):
        figure.add_scatter(x=list(x), y=list(y), name=name, mode="lines+markers", line=dict(color=colours[i % 4], dash=dashes[i % 4]))
    figure.update_xaxes(title_text=x_title).update_yaxes(title_text=y_title)
    if log_x:
        figure.update_xaxes(type="log", tickvals=sorted({at for x, _ in curves.values() for at in x}))
    legend, margin = dict(orientation="h", y=1.15), dict(l=70, r=20, t=30, b=60)
    return figure.update_layout(template="simple_white", font_family=FONT, height=360, legend=legend, margin=margin)
