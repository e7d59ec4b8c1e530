"""The second panel: two rows of weights go down a valley, computed as one looks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, line, path, rect, text
from ..frame.units import percent
from .landscape import LARGE, SMALL, STEPS, TURN, Matrix, descent, loss

WIDTH, HEIGHT = 760, 404
VALLEY_RATES = {
    "sgd": (0.00125, 0.0025, 0.005, 0.01, 0.02),
    "momentum": (0.002, 0.004, 0.008, 0.016, 0.032),
    "adam": (0.025, 0.05, 0.1, 0.2, 0.4),
    "lion": (0.0125, 0.025, 0.05, 0.1, 0.2),
    "muon": (0.1, 0.2, 0.4, 0.8, 1.6),
}
RULE_NAMES = {
    "sgd": "SGD",
    "momentum": "SGD + momentum",
    "adam": "Adam",
    "lion": "Lion",
    "muon": "Muon",
}
MOMENTS = (0, 1, 2, 4, 8, 12, 20, 30, 45, 60)  # steps at which the slider stops
_X, _Y, _UNIT = 170, 200, 88.0  # the best weights, and the length of 1
_BARS = 420


@cache
def way(rule: str, level: int, mixed: bool) -> tuple[Matrix, ...]:
    """The weights before the first step and after each."""
    return tuple(descent(rule, VALLEY_RATES[rule][level], mixed))


def left(rule: str, level: int, mixed: bool, step: int) -> float:
    """The loss after `step` steps as a share of the first."""
    steps = way(rule, level, mixed)
    return loss(steps[step], mixed) / loss(steps[0], mixed)


def scene(state: State, lang: str) -> Scene:
    """The valley from above with both paths, and the loss of all steps beside it."""
    rule, level, mixed, step = (state[name] for name in ("rule", "level", "mixed", "step"))
    found = way(rule, level, mixed)
    share = left(rule, level, mixed, step)
    rate, much = VALLEY_RATES[rule][level], percent(share)
    result = t(
        f"{RULE_NAMES[rule]}, rate {rate:g}: {much} of the first loss after {step} steps.",
        f"{RULE_NAMES[rule]}，学习率 {rate:g}：{step} 步之后，损失是最初的 {much}。",
        lang,
    )
    items = [text("result", 0, 18, result, "ink", 14, bold=True), *_valley(mixed)]
    for row, ink in ((0, "leaf"), (1, "plum")):  # blue and red are the upper panel's optimizers
        points = [(w[2 * row], w[2 * row + 1]) for w in found[: step + 1]]
        at = [f"{_at(_X, x):.1f} {_at(_Y, -y):.1f}" for x, y in points]
        items.append(path(f"way{row}", "M" + "L".join(at), ink, width=1.5))
        x, y = points[-1]
        items.append(circle(f"point{row}", _at(_X, x), _at(_Y, -y), 6, ink))
    items += _losses(rule, level, mixed, step, lang)
    notes = (
        t(
            "A layer of two inputs, one 10 times as large as the other, and two outputs:"
            " each dot is one output's weights.",
            "一层，两个输入（一个是另一个的 10 倍大），两个输出：每个点是一个输出的权重。",
            lang,
        ),
        t(
            "Thin lines: equal loss. The rate falls in a straight line to 0 in 60 steps.",
            "细线：损失相等处。学习率在 60 步里直线降到 0。",
            lang,
        ),
    )
    for i, words in enumerate(notes):
        items.append(text(f"note{i}", 2, HEIGHT - 22 + 16 * i, words, "soft", 11))
    return {"items": items, "alt": result}


def _at(middle: float, distance: float) -> float:
    return middle + _UNIT * min(max(distance, -1.75), 1.75)


def _valley(mixed: bool) -> Iterator[Item]:
    """Lines of equal loss, and the best weights."""
    angle = TURN if mixed else 0.0
    c, s = math.cos(angle), math.sin(angle)
    yield rect("ground", _X - 160, _Y - 160, 320, 320, "void")
    for number, wide in enumerate((0.3, 0.7, 1.1, 1.5)):
        narrow = wide * math.sqrt(SMALL / LARGE)
        points = []
        for i in range(33):
            a, b = (narrow * math.cos(math.pi * i / 16), wide * math.sin(math.pi * i / 16))
            x, y = c * a - s * b, s * a + c * b
            points.append(f"{_X + _UNIT * x:.1f} {_Y - _UNIT * y:.1f}")
        yield path(f"level{number}", "M" + "L".join(points), "rule")
    yield line("x-axis", _X - 160, _Y, _X + 160, _Y)
    yield line("y-axis", _X, _Y - 160, _X, _Y + 160)


def _losses(rule: str, level: int, mixed: bool, step: int, lang: str) -> Iterator[Item]:
    """The loss after every step, in powers of ten."""
    floor, pitch = 330, 40
    words = t("loss ÷ first loss", "损失 ÷ 最初的损失", lang)
    yield text("losses", _BARS - 50, 60, words, "soft", 12)
    for power in range(-6, 1):
        y = floor + pitch * (-6 - power)
        yield line(f"power{power}", _BARS, y, WIDTH - 10, y)
        yield text(f"power-name{power}", _BARS - 8, y + 4, f"1e{power}", "soft", 12, "end")
    width = (WIDTH - 20 - _BARS) / STEPS
    points = []
    for number in range(step + 1):
        power = math.log10(max(left(rule, level, mixed, number), 1e-6))
        points.append(f"{_BARS + number * width:.1f} {floor + pitch * (-6 - min(power, 0.3)):.1f}")
    if step:
        yield path("loss", "M" + "L".join(points), "ink", width=2)
    for number in (0, 30, 60):
        at = _BARS + number * width
        name = t(f"step {number}", f"第 {number} 步", lang)
        anchor = "start" if number == 0 else "middle" if number == 30 else "end"
        yield text(f"step{number}", at, floor + 20, name, "soft", 12, anchor)
