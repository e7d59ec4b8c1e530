"""Plotly figures of measured runs that lessons share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..figure_style import DARK, INK, LIGHT, NOTHING, TEMPLATE, WORST
from ..i18n import t
from ..widgets.gradient_checkpointing.walk import part_words

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..measure.curve import Reading


def trace_figure(traces: Mapping[str, Sequence[tuple[float, str, str]]]) -> go.Figure:
    """Steps as the ledgers recorded them, one above the other: a tick per gradient, a bar from a
    message's departure until it was no longer waited for, dark from the moment it was waited for.
    `traces`: title → `Ledger.trace()`."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(traces),
        cols=1,
        shared_xaxes=True,
        subplot_titles=list(traces),
        vertical_spacing=0.16,
    )
    for row, trace in enumerate(traces.values(), start=1):
        zero = min(at for at, _, _ in trace)
        moments = {
            kind: {name: 1e3 * (at - zero) for at, k, name in trace if k == kind}
            for kind in ("gradient", "issue", "wait", "done")
        }
        sent = list(moments["issue"])
        figure.add_trace(
            go.Scatter(
                x=list(moments["gradient"].values()),
                y=[t("gradients", "梯度")] * len(moments["gradient"]),
                mode="markers",
                text=list(moments["gradient"]),
                marker=dict(symbol="line-ns-open", size=14, color=INK),
                name=t("a gradient exists", "一个梯度产生"),
                showlegend=row == 1,
            ),
            row=row,
            col=1,
        )
        for begin, end, colour, name in (
            ("issue", "wait", LIGHT, t("under way, not waited for", "在途，未等待")),
            ("wait", "done", DARK, t("waited for", "等待中")),
        ):
            figure.add_trace(
                go.Bar(
                    x=[moments[end][s] - moments[begin][s] for s in sent],
                    base=[moments[begin][s] for s in sent],
                    y=[t("messages", "消息")] * len(sent),
                    orientation="h",
                    marker=dict(color=colour, line=dict(color=NOTHING, width=1)),
                    text=sent if len(sent) < 8 else None,
                    textposition="none",
                    hovertext=sent,
                    name=name,
                    showlegend=row == 1,
                ),
                row=row,
                col=1,
            )
    return figure.update_layout(
        barmode="overlay",
        height=170 * len(traces) + 110,
        template=TEMPLATE,
        legend=dict(orientation="h", y=-0.18),
        margin=dict(l=90, r=20, t=40, b=20),
    ).update_xaxes(title_text="ms", row=len(traces), col=1)


def curves_figure(
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    x_title: str,
    y_title: str,
    log_x: bool = False,
) -> go.Figure:
    """Named curves (name → (x, y)) with a mark at every computed point; a logarithmic x has its
    ticks at those points."""
    import plotly.graph_objects as go

    colours, dashes = (DARK, "#c45a00", "#5f8f3f", "#8a6fb0"), ("solid", "dash", "dot", "dashdot")
    figure = go.Figure()
    for i, (name, (x, y)) in enumerate(curves.items()):
        figure.add_scatter(
            x=list(x),
            y=list(y),
            name=name,
            mode="lines+markers",
            line=dict(color=colours[i % 4], dash=dashes[i % 4]),
        )
    figure.update_xaxes(title_text=x_title).update_yaxes(title_text=y_title)
    if log_x:
        figure.update_xaxes(
            type="log", tickvals=sorted({at for x, _ in curves.values() for at in x})
        )
    legend, margin = dict(orientation="h", y=1.15), dict(l=70, r=20, t=30, b=60)
    return figure.update_layout(template=TEMPLATE, height=360, legend=legend, margin=margin)


def stack_figure(bars: Mapping[str, Mapping[str, float]], x_title: str) -> go.Figure:
    """Stacked bars, one per name: `bars` is name → {part: value}; every part keeps its colour, and
    totals stand at the ends."""
    import plotly.graph_objects as go

    parts = list(dict.fromkeys(part for values in bars.values() for part in values))
    figure = go.Figure()
    for part, colour in zip(parts, (DARK, LIGHT, "#e3c878", "#8a8a8a", "#cfe3ee"), strict=False):
        figure.add_bar(
            y=list(bars),
            x=[values.get(part, 0) for values in bars.values()],
            name=part,
            orientation="h",
            marker_color=colour,
            hovertemplate=f"%{{y}}<br>{part} %{{x:.1f}}<extra></extra>",
        )
    totals = [sum(values.values()) for values in bars.values()]
    figure.add_scatter(
        y=list(bars),
        x=totals,
        mode="text",
        text=[f" {total:.0f}" for total in totals],
        textposition="middle right",
        showlegend=False,
        hoverinfo="skip",
    )
    figure.update_xaxes(title_text=x_title, range=[0, 1.1 * max(totals)]).update_yaxes(
        autorange="reversed"
    )
    legend = dict(orientation="h", y=1.0, yanchor="bottom", traceorder="normal")
    return figure.update_layout(
        template=TEMPLATE,
        barmode="stack",
        height=110 + 42 * len(bars),
        margin=dict(l=120, r=20, t=30, b=50),
        legend=legend,
    )


PHASES = {
    "forward": ("forward", "前向"),
    "backward": ("backward", "反向"),
    "update": ("update", "更新"),
}


def memory_figure(curves: Mapping[str, Sequence[Reading]]) -> go.Figure:
    """Live bytes through a step, operation by operation, one panel per curve: the saved part
    filled, phases told apart by dotted lines, the highest moment marked with what was at work.
    `curves`: title → `memory_curve(…)`."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(curves), cols=1, subplot_titles=list(curves), vertical_spacing=0.2
    )
    for row, readings in enumerate(curves.values(), start=1):
        _memory_panel(figure, readings, row)
    legend, margin = dict(orientation="h", y=-0.25, yanchor="top"), dict(l=60, r=20, t=50, b=40)
    figure.update_layout(
        template=TEMPLATE, height=300 * len(curves) + 90, legend=legend, margin=margin
    )
    return figure.update_xaxes(
        title_text=t("operations of the step", "一步之中的运算"), row=len(curves), col=1
    )


def _where(reading: Reading) -> str:
    """What is at work: the phase, and the part where there is one."""
    phase, part = t(*PHASES[reading.phase]), reading.part
    if not part:
        return phase
    return (
        phase
        + t(", ", "，")
        + t(*part_words(int(part.removeprefix("blocks.")) if part.startswith("blocks.") else part))
    )


def _memory_panel(figure: go.Figure, readings: Sequence[Reading], row: int) -> None:
    x, where = list(range(len(readings))), list(map(_where, readings))
    for name, values, fill, colour in (
        (t("all that is alive", "全部存活的"), [r.live_bytes / 1e6 for r in readings], None, DARK),
        (
            t("saved for the backward pass", "为反向传播保存的"),
            [r.saved_bytes / 1e6 for r in readings],
            "tozeroy",
            LIGHT,
        ),
    ):
        figure.add_scatter(
            x=x,
            y=values,
            name=name,
            mode="lines",
            fill=fill,
            text=where,
            line=dict(color=colour, width=1.5, shape="hv"),
            showlegend=row == 1,
            hovertemplate="%{text}<br>%{y:.2f} MB<extra></extra>",
            row=row,
            col=1,
        )
    top = max(x, key=lambda i: readings[i].live_bytes)
    highest = readings[top].live_bytes / 1e6
    figure.add_scatter(
        x=[top],
        y=[highest],
        mode="markers+text",
        marker=dict(color=WORST, size=8),
        text=[t(f"peak: {where[top]}", f"峰值：{where[top]}")],
        textposition="middle right" if top < len(x) / 2 else "middle left",
        cliponaxis=False,
        showlegend=False,
        hoverinfo="skip",
        row=row,
        col=1,
    )
    for phase in ("backward", "update"):
        begins = next((i for i in x if readings[i].phase == phase), None)
        if begins is not None:
            line = dict(color=INK, width=1, dash="dot")
            figure.add_vline(
                x=begins,
                line=line,
                annotation_text=t(*PHASES[phase]),
                annotation_position="top right",
                row=row,
                col=1,
            )
    figure.update_yaxes(title_text="MB", range=[0, 1.3 * highest], row=row, col=1)
