"""One number on the rulers of all formats: where each begins and ends, the bits that it keeps of
the number, and the number that comes back."""

from __future__ import annotations

from math import log10

from ...formats import FORMATS, Format, Rounded, round_to_nearest
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, axis, handle, line, rect, text

WIDTH, TOP, ROW = 780, 44, 44
HEIGHT = TOP + ROW * len(FORMATS) + 40
LEFT, SPAN, BITS = 52, 300, 376
_FIRST, _LAST, _MOST = -10, 6, 760
NUMBERS = (
    *(1e-10, 1e-9, 1e-8, 2.98e-8, 3e-8, 6e-8, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 6.2e-5, 1e-4, 3e-4),
    *(0.001, 0.002, 0.003, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.7, 1.0, 1.001, 1.0039),
    *(1.01, 1.1, 1.25, 1.5, 2.0, 2.5, 3.14159, 5.0, 6.0, 7.0, 10.0, 17.0, 20.0, 33.0, 50.0, 100.0),
    *(200.0, 256.0, 257.0, 300.0, 448.0, 464.0, 480.0, 1000.0, 2049.0, 4097.0, 10_000.0),
    *(57_344.0, 61_440.0, 65_504.0, 65_519.0, 65_520.0, 100_000.0, 1_000_000.0),
)
_SATURATING = ("e4m3", "e2m1")  # what torch 2.13 does on a CPU; e2m1 has no other way


def became(x: float, form: Format) -> Rounded:
    """The number put into the format."""
    return round_to_nearest(x, form, saturate=form.name in _SATURATING)


def scene(state: State, lang: str) -> Scene:
    """A row for each format."""
    x = state["number"]
    items: list[Item] = []
    for row, form in enumerate(FORMATS.values()):
        items += _row(TOP + ROW * row, x, form, lang)
    bottom = TOP + ROW * len(FORMATS)
    marks = [((p - _FIRST) / (_LAST - _FIRST), f"1e{p}" if p else "1") for p in range(-10, 7, 4)]
    items += axis("axis", LEFT, bottom, SPAN, marks)
    items.append(line("here", _at(x), TOP - 10, _at(x), bottom, "ink", 1.5))
    items.append(handle("grip", _at(x), TOP - 26, 18, "number", [_at(n) for n in NUMBERS]))
    items.append(
        text(
            "head",
            BITS,
            TOP - 14,
            t("sign · exponent · mantissa", "符号 · 指数 · 尾数", lang),
            "soft",
            12,
        )
    )
    return {"items": items, "alt": _summary(x, lang)}


def _at(x: float) -> float:
    share = (log10(x) - _FIRST) / (_LAST - _FIRST)
    return LEFT + SPAN * min(max(share, 0.0), 1.0)


def _row(y: float, x: float, form: Format, lang: str) -> list[Item]:
    found, key = became(x, form), form.name
    items = [text(f"{key}-name", 0, y + 17, key, bold=True)]
    for part, low, high, fill in (
        ("sub", form.smallest, form.smallest_normal, "blue1"),
        ("normal", form.smallest_normal, form.largest, "blue3"),
    ):
        begin, end = _at(low), _at(high)
        if end > begin:
            items.append(rect(f"{key}-{part}", begin, y + 6, end - begin, 14, fill))
    at = float(BITS)
    if found.value == found.value and abs(found.value) <= form.largest:
        fills = ("stone", "sand", "moss")
        for part, word, fill in zip("sem", form.fields(found.value), fills, strict=True):
            wide = 7.6 * len(word) + 6
            items.append(rect(f"{key}-{part}", at, y, wide, 18, fill, rx=3))
            items.append(
                text(
                    f"{key}-{part}-bits", at + wide / 2, y + 13.5, word, f"on-{fill}", 12, "middle"
                )
            )
            at += wide + 3
    colour = "fire" if found.lost else "ink"
    items.append(text(f"{key}-value", BITS, y + 34, _verdict(x, found, lang), colour, 12.5))
    return items


def _verdict(x: float, found: Rounded, lang: str) -> str:
    off = abs(found.value - x) / x if found.value < float("inf") else 0.0
    shown = f"{found.value:.8g}"
    words = {
        "exact": t("exact", "精确", lang),
        "rounded": t(f"relative error {off:.2g}", f"相对误差 {off:.2g}", lang),
        "subnormal": t(f"subnormal: relative error {off:.2g}", f"次正规：相对误差 {off:.2g}", lang),
        "underflow": t("underflow: nothing is left", "下溢：什么都没剩下", lang),
        "overflow": t("overflow", "上溢", lang),
        "saturated": t("saturated: the largest there is", "饱和：取最大值", lang),
    }
    return f"{shown} · {words[found.happened]}"


def _summary(x: float, lang: str) -> str:
    lost = [form.name for form in FORMATS.values() if became(x, form).lost]
    exact = [form.name for form in FORMATS.values() if became(x, form).happened == "exact"]
    comma, none = t(", ", "、", lang), t("no format", "无", lang)
    return t(
        f"{x:.8g}: exact in {comma.join(exact) or none}; lost in {comma.join(lost) or none}.",
        f"{x:.8g}：精确的格式：{comma.join(exact) or none}；"
        f"丢失的格式：{comma.join(lost) or none}。",
        lang,
    )
