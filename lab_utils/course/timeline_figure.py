"""A plotly figure of pipeline steps: one lane per rank, one bar per action, what is left white is
bubble."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..figure_style import DARK, LIGHT, NOTHING, TEMPLATE
from ..i18n import t

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..estimate.time.pipeline import Timeline

WEIGHTS = "#e3c878"


def timelines_figure(timelines: Mapping[str, Timeline]) -> go.Figure:
    """Timelines, simulated or measured, one above the other on one axis of milliseconds.
    `timelines`: title → Timeline."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=len(timelines),
        cols=1,
        shared_xaxes=True,
        subplot_titles=list(timelines),
        vertical_spacing=0.28 / max(1, len(timelines)),
    )
    kinds = {
        "F": (t("forward", "前向"), LIGHT, "#1b2733"),
        "B": (t("backward", "反向"), DARK, "#ffffff"),
        "W": (t("weight gradients", "权重梯度"), WEIGHTS, "#1b2733"),
    }
    seen: set[str] = set()
    for row, timeline in enumerate(timelines.values(), start=1):
        for kind, (name, colour, ink) in kinds.items():
            spans = [span for span in timeline.spans if span.action.kind == kind]
            if not spans:
                continue
            figure.add_trace(
                go.Bar(
                    x=[1e3 * (span.end - span.start) for span in spans],
                    base=[1e3 * span.start for span in spans],
                    y=[f"rank {span.rank}" for span in spans],
                    orientation="h",
                    marker=dict(color=colour, line=dict(color=NOTHING, width=1)),
                    text=[str(span.action.micro) for span in spans],
                    textposition="inside",
                    insidetextanchor="middle",
                    textangle=0,
                    textfont=dict(color=ink, size=10),
                    hovertext=[
                        t(
                            f"{name}, micro-batch {span.action.micro}, stage {span.action.stage}",
                            f"{name}，微批次 {span.action.micro}，阶段 {span.action.stage}",
                        )
                        for span in spans
                    ],
                    hoverinfo="text",
                    name=name,
                    showlegend=kind not in seen,
                    legendgroup=kind,
                ),
                row=row,
                col=1,
            )
            seen.add(kind)
    lanes = sum(len(timeline.schedule) for timeline in timelines.values())
    figure.update_yaxes(autorange="reversed").update_xaxes(
        title_text="ms", row=len(timelines), col=1
    )
    return figure.update_layout(
        barmode="overlay",
        bargap=0.15,
        uniformtext=dict(minsize=8, mode="hide"),
        height=26 * lanes + 46 * len(timelines) + 100,
        template=TEMPLATE,
        legend=dict(orientation="h", y=-0.12, yanchor="top"),
        margin=dict(l=60, r=20, t=30, b=70),
    )
