"""Colours and font of the plotly figures, from dark to light in luminance so that they can be told apart without hue."""

INK, DARK, LIGHT = "#1b1b1b", "#1f4e79", "#8fb8de"
WRONG, WORST = "#e08a2e", "#b3261e"
FONT = "system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', 'WenQuanYi Micro Hei', sans-serif"
