"""What a picture is made of: keyed SVG primitives as plain dicts, and the classes that colour them
in both themes.

A scene is `{"items": [...], "alt": "..."}`. An item carries a tag, a key that is unique in its
scene, and attributes. Where two scenes share a key the page changes the element instead of
replacing it, so that what is the same thing moves. Coordinates are in the panel's own units (its
viewBox), y downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Item = dict[str, Any]
Scene = dict[str, Any]

FONTS = (
    "system-ui",
    "-apple-system",
    '"Segoe UI"',
    '"Helvetica Neue"',
    '"DejaVu Sans"',
    '"Noto Sans CJK SC"',
    '"PingFang SC"',
    '"Microsoft YaHei"',
    '"WenQuanYi Micro Hei"',
    "sans-serif",
)

# colour name → (light theme, dark theme). Steps of a series are ordered by luminance, so that they
# stay apart without hue; `on-` is the text that stands on a step (contrast at least 4.5).
COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14181d"),
    "ink": ("#1b2733", "#e8edf2"),
    "soft": ("#51606e", "#a8b4c0"),
    "rule": ("#c3ccd5", "#46525e"),
    "void": ("#f1f4f7", "#1f262d"),
    "blue1": ("#dfebf6", "#1d3549"),
    "blue2": ("#abcdea", "#275681"),
    "blue3": ("#5f9dd0", "#4a8fc7"),
    "blue4": ("#25669f", "#8dc1ec"),
    "blue5": ("#0c3b66", "#d5eafc"),
    "on-blue1": ("#1b2733", "#e8edf2"),
    "on-blue2": ("#1b2733", "#ffffff"),
    "on-blue3": ("#0d1620", "#0d1620"),
    "on-blue4": ("#ffffff", "#0d1620"),
    "on-blue5": ("#ffffff", "#0d1620"),
    "sand": ("#e9bd6b", "#8c6a2a"),
    "on-sand": ("#1b2733", "#ffffff"),
    "leaf": ("#3c7546", "#86c48b"),
    "on-leaf": ("#ffffff", "#0d1620"),
    "moss": ("#b5d3b0", "#35593b"),
    "on-moss": ("#1b2733", "#ffffff"),
    "stone": ("#c9c4bb", "#57524a"),
    "on-stone": ("#1b2733", "#ffffff"),
    "plum": ("#9b6fae", "#b88ac8"),
    "on-plum": ("#0d1620", "#0d1620"),
    "fire": ("#b23c0e", "#ff9566"),
    "on-fire": ("#ffffff", "#0d1620"),
}


def rect(
    key: str, x: float, y: float, width: float, height: float, fill: str, **attributes: Any
) -> Item:
    """A rectangle filled with a colour of COLOURS; `title` is its tooltip, `stroke` the colour of
    its outline."""
    return _item("rect", key, x=x, y=y, width=width, height=height, fill=fill, **attributes)


def circle(key: str, cx: float, cy: float, r: float, fill: str, **attributes: Any) -> Item:
    """A disc."""
    return _item("circle", key, cx=cx, cy=cy, r=r, fill=fill, **attributes)


def line(
    key: str,
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    stroke: str = "rule",
    width: float = 1,
    **attributes: Any,
) -> Item:
    """A straight line, `width` units wide."""
    return _item(
        "line",
        key,
        x1=x1,
        y1=y1,
        x2=x2,
        y2=y2,
        stroke=stroke,
        **{"stroke-width": width},
        **attributes,
    )


def path(
    key: str,
    d: str,
    stroke: str | None = None,
    fill: str = "none",
    width: float = 1,
    **attributes: Any,
) -> Item:
    """Any outline, in SVG's path language."""
    return _item(
        "path", key, d=d, fill=fill, stroke=stroke, **{"stroke-width": width}, **attributes
    )


def text(
    key: str,
    x: float,
    y: float,
    words: str,
    fill: str = "ink",
    size: float = 13,
    anchor: str = "start",
    bold: bool = False,
    **attributes: Any,
) -> Item:
    """One line of text on the baseline y; `anchor` start, middle or end."""
    return _item(
        "text",
        key,
        x=x,
        y=y,
        text=words,
        fill=fill,
        **{
            "font-size": size,
            "text-anchor": anchor if anchor != "start" else None,
            "font-weight": 600 if bold else None,
        },
        **attributes,
    )


def arrow(
    key: str, x1: float, y: float, x2: float, stroke: str, width: float = 2, head: float = 4
) -> Item:
    """A horizontal arrow from x1 to x2 > x1."""
    return path(
        key,
        f"M{x1:.1f} {y:.1f}H{x2:.1f}M{x2 - head:.1f} {y - head:.1f}L{x2:.1f}"
        f" {y:.1f}L{x2 - head:.1f} {y + head:.1f}",
        stroke,
        width=width,
    )


def handle(
    key: str, x: float, y: float, height: float, control: str, spots: Sequence[float]
) -> Item:
    """A grip around x that is pulled sideways (drag.js): the options of `control` stand at `spots`.
    The control's own slider serves keyboards."""
    return rect(
        key,
        x - 5,
        y,
        10,
        height,
        "paper",
        rx=4,
        stroke="ink",
        **{"data-drag": control, "data-spots": " ".join(f"{spot:.1f}" for spot in spots)},
    )


def axis(
    key: str, x: float, y: float, length: float, ticks: Sequence[tuple[float, str]]
) -> list[Item]:
    """A horizontal axis of `length` units; `ticks` are (position from 0 to 1, words)."""
    items = [line(f"{key}-line", x, y, x + length, y)]
    for i, (position, words) in enumerate(ticks):
        at = x + position * length
        items += [
            line(f"{key}-tick{i}", at, y, at, y + 4),
            text(f"{key}-number{i}", at, y + 17, words, "soft", 12, "middle"),
        ]
    return items


def _item(tag: str, key: str, **attributes: Any) -> Item:
    for name in ("fill", "stroke"):
        colour = attributes.get(name)
        if colour not in (None, "none") and colour not in COLOURS:
            raise ValueError(
                f"item {key!r}: there is no colour {colour!r}; known: {', '.join(COLOURS)}."
            )
    item: Item = {"tag": tag, "key": key}
    for name, value in attributes.items():
        if value is not None:
            item[name] = round(value, 1) if isinstance(value, float) else value
    return item
