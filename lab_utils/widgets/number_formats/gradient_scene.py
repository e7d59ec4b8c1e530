"""The gradients of a real run by size, on the ruler of one format; the loss scale moves them."""

from __future__ import annotations

from ...formats import FORMATS, Format
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, line, rect, text
from ..frame.units import percent
from .counts import FATES, STEP, Counts, counts, fate, power_words
from .recorded import GRADIENTS, gradient_sizes

CONTROLS = ("what", "format", "scale")
WIDTH, HEIGHT, LEFT, SPAN, TOP, FLOOR = 780, 330, 8, 760, 64, 250
_FIRST, _LAST = -46, 24  # powers of two that are shown
_BAR = SPAN / (_LAST - _FIRST)
FILLS = {"zero": "fire", "subnormal": "sand", "normal": "blue4", "overflow": "plum"}


def scene(state: State, lang: str) -> Scene:
    """A bar for each power of two, coloured by what becomes of it."""
    what, name, power = (state[control] for control in CONTROLS)
    form, sizes = FORMATS[name], gradient_sizes(what, STEP)
    found = counts(what, name, power)
    items, most = _zones(form, lang), max(sizes.values())
    items.append(line("floor", LEFT, FLOOR, LEFT + SPAN, FLOOR))
    for exponent, count in sizes.items():
        height = (FLOOR - TOP - 20) * count / most
        at = exponent + power
        if height < 0.5 or not _FIRST <= at < _LAST:
            continue
        fill = FILLS[fate(at, form)]
        items.append(rect(f"bar{exponent}", _x(at), FLOOR - height, _BAR - 1, height, fill))
    marks = [((p - _FIRST) / (_LAST - _FIRST), power_words(p)) for p in range(-40, 21, 10)]
    items += axis("axis", LEFT, FLOOR, SPAN, marks)
    return {"items": [*items, *_figures(found, lang), _about(lang)], "alt": _summary(state, lang)}


def _x(exponent: float) -> float:
    return LEFT + SPAN * (min(max(exponent, _FIRST), _LAST) - _FIRST) / (_LAST - _FIRST)


def _zones(form: Format, lang: str) -> list[Item]:
    """Where the format has its numbers: subnormal, then normal."""
    low, high = form.least_exponent, form.greatest_exponent + 1
    edges = (("sub", low - form.mantissa - 1, low, "void"), ("ruler", low, high, "blue1"))
    items = [
        rect(f"zone-{key}", _x(a), TOP, max(_x(b) - _x(a), 0.0), FLOOR - TOP, fill)
        for key, a, b, fill in edges
    ]
    words = t(f"the range of {form.name}", f"{form.name} 的范围", lang)
    return [*items, text("zone-name", _x(high) - 6, TOP + 16, words, "soft", 12, "end")]


def _figures(found: Counts, lang: str) -> list[Item]:
    words = (
        t("become zero", "变成零", lang),
        t("subnormal", "次正规", lang),
        t("all bits", "完整精度", lang),
        t("overflow", "上溢", lang),
    )
    items: list[Item] = []
    for i, (kind, name, share) in enumerate(zip(FATES, words, found, strict=True)):
        x = LEFT + 190 * i
        items.append(rect(f"key{i}", x, 10, 12, 12, FILLS[kind]))
        items.append(text(f"key-name{i}", x + 18, 21, name, size=13))
        items.append(text(f"share{i}", x + 18, 44, percent(share), bold=True, size=16))
    return items


def _about(lang: str) -> Item:
    words = t(
        f"Size of the gradients × S. tiny, after {STEP} steps, recorded: {GRADIENTS.about(lang)}",
        f"梯度 × S 的大小。tiny，第 {STEP} 步，录制于 {GRADIENTS.about(lang)}",
        lang,
    )
    return text("about", LEFT, HEIGHT - 14, words, "soft", 12)


def _summary(state: State, lang: str) -> str:
    what, name, power = (state[control] for control in CONTROLS)
    found, scale = counts(what, name, power), power_words(power)
    of = {"activations": t("activations", "激活值", lang), "weights": t("weights", "权重", lang)}[
        what
    ]
    return t(
        f"Gradients of {of} in {name}, S = {scale}: {percent(found.zero)} become zero,"
        f" {percent(found.subnormal)} are subnormal, {percent(found.overflow)} overflow.",
        f"{of}的梯度，{name}，S = {scale}：{percent(found.zero)} 变成零，"
        f"{percent(found.subnormal)} 次正规，{percent(found.overflow)} 上溢。",
        lang,
    )
