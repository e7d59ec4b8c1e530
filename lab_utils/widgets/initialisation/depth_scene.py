"""The first panel: how large the residual stream and its gradient are behind every block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, line, path, text
from .costs import about, growth, network

WIDTH, HEIGHT = 760, 330
_LEFT, _RIGHT, _TOP, _FLOOR = 70, 740, 60, 270
_LOW, _HIGH = -7, 7  # powers of ten that fit


def measured(state: State) -> dict[str, list[float | None]]:
    """The network that the controls name."""
    return network(*(state[name] for name in ("depth", "width", "init", "norm", "activation")))


def scene(state: State, lang: str) -> Scene:
    """Two curves, each over its own value at the end where its signal comes in."""
    found = measured(state)
    stream, gradient = found["stream"], found["gradient"]
    items = [*_frame(len(stream), lang)]
    items += _curve("stream", stream, stream[0], "blue4")
    items += _curve("gradient", gradient, gradient[-1], "fire")
    words = t("stream ", "残差流", lang) + _times(stream, lang)
    back = t("gradient ", "梯度", lang) + _times(gradient, lang)
    items += [
        circle("stream-key", 8, 14, 6, "blue4"),
        text("stream-words", 22, 19, words, bold=True),
        circle("gradient-key", 388, 14, 6, "fire"),
        text("gradient-words", 402, 19, back, bold=True),
    ]
    note = t(f"Measured, untrained: {about()}.", f"实测，未经训练：{about()}。", lang)
    items.append(text("note", 0, HEIGHT - 4, note, "soft", 12))
    return {"items": items, "alt": f"{words}; {back}" if lang == "en" else f"{words}；{back}"}


def _times(values: Sequence[float | None], lang: str) -> str:
    many = growth(list(values))
    if math.isinf(many):
        return t("leaves the range of numbers", "超出数值范围", lang)
    shown = f"{many:.2g}" if many < 1e3 else f"{many:.0e}"
    return t(f"varies by a factor of {shown}", f"的最大值是最小值的 {shown} 倍", lang)


def _y(power: float) -> float:
    return _FLOOR - (power - _LOW) * (_FLOOR - _TOP) / (_HIGH - _LOW)


def _frame(blocks: int, lang: str) -> Iterator[Item]:
    what = t("root mean square ÷ where it enters", "均方根 ÷ 进入处的值", lang)
    yield text("y-name", 0, _TOP - 16, what, "soft", 12)
    for power in range(-6, 7, 3):
        yield line(f"grid{power}", _LEFT, _y(power), _RIGHT, _y(power), "rule")
        words = "1" if power == 0 else f"1e{power}"
        yield text(f"tick{power}", _LEFT - 8, _y(power) + 4, words, "soft", 12, "end")
    for at, block in ((_LEFT, 1), (_RIGHT, blocks)):
        words = t(f"block {block}", f"第 {block} 块", lang)
        yield text(f"x{at}", at, _FLOOR + 20, words, "soft", 12, "start" if block == 1 else "end")


def _curve(
    name: str, values: Sequence[float | None], unit: float | None, colour: str
) -> Iterator[Item]:
    points = []
    for i, value in enumerate(values):
        if value is None or not unit:
            continue
        power = min(max(math.log10(value / unit), _LOW), _HIGH)
        x = _LEFT + i * (_RIGHT - _LEFT) / (len(values) - 1)
        points.append(f"{x:.1f} {_y(power):.1f}")
    if points:
        yield path(name, "M" + "L".join(points), colour, width=2.5)
