"""Colours, font and template of the plotly figures. They stand on no ground of their own and are
drawn in middle tones, so that one figure, also saved as a picture, reads on a light page and on a
dark one. Series go from dark to light in luminance: they can be told apart without hue."""

INK, DARK, LIGHT = "#7a7a7a", "#2f6fa8", "#8fb8de"
WRONG, WORST = "#e08a2e", "#d0453b"
FONT = (
    "system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', 'WenQuanYi Micro Hei',"
    " sans-serif"
)
NOTHING = "rgba(0,0,0,0)"
_AXIS = dict(
    showline=True,
    linecolor=INK,
    ticks="outside",
    tickcolor=INK,
    gridcolor="rgba(128,128,128,0.25)",
    showgrid=False,
    zeroline=False,
    automargin=True,
    title_standoff=15,
)
TEMPLATE = dict(
    layout=dict(
        paper_bgcolor=NOTHING,
        plot_bgcolor=NOTHING,
        font=dict(color=INK, family=FONT),
        xaxis=_AXIS,
        yaxis=_AXIS,
        hovermode="closest",
    )
)
