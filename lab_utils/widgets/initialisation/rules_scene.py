"""The second panel: slopes of the coordinate check, by the muP rules that are ticked."""

from __future__ import annotations

from collections.abc import Iterator

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from .costs import PLACES, RULES, slopes

WIDTH, HEIGHT = 760, 324
_ZERO, _UNIT, _TOP, _PITCH = 400, 190, 60, 44  # x of slope 0, length of slope 1
LEVEL = 0.2  # what grows no faster than width^0.2 counts as level


def kept(state: State) -> tuple[str, ...]:
    """The rules that are ticked."""
    return tuple(rule for rule in RULES if state[rule])


def scene(state: State, lang: str) -> Scene:
    """A bar from 0 for each place."""
    found = slopes(kept(state))
    names = {
        "first": t("logits at step 0", "第 0 步的 logits", lang),
        "attention": t("attention's output", "注意力的输出", lang),
        "mlp": t("the MLP's output", "MLP 的输出", lang),
        "stream": t("residual stream", "残差流", lang),
        "logits": t("logits after step 4", "4 步之后的 logits", lang),
    }
    worst = max(found, key=found.get)
    level = found[worst] <= LEVEL
    words = (
        t("Nothing grows with the width.", "没有哪一处随宽度增长。", lang)
        if level
        else t(
            f"{names[worst]}: width^{found[worst]:.2f}",
            f"{names[worst]}：宽度^{found[worst]:.2f}",
            lang,
        )
    )
    items = [text("result", 0, 20, words, "ink" if level else "fire", 15, bold=True)]
    items += _axis(lang)
    for number, place in enumerate(PLACES):
        top, slope = _TOP + number * _PITCH, found[place]
        length = abs(slope) * _UNIT
        x = _ZERO if slope >= 0 else _ZERO - length
        colour = "leaf" if slope <= LEVEL else "fire"
        items.append(text(f"name-{place}", 0, top + 20, names[place]))
        items.append(rect(f"bar-{place}", x, top, length, 28, colour))
        end = max(x + length, _ZERO) + 8
        items.append(text(f"value-{place}", end, top + 20, f"{slope:+.2f}", bold=True))
    return {"items": items, "alt": words}


def _axis(lang: str) -> Iterator[Item]:
    end = _TOP + len(PLACES) * _PITCH
    yield line("zero", _ZERO, _TOP - 8, _ZERO, end - 8, "ink", 1.5)
    for slope in (-1, 0, 1):
        yield text(f"tick{slope}", _ZERO + slope * _UNIT, end + 8, str(slope), "soft", 12, "middle")
    words = t(
        "slope: size grows like width^slope (widths 32 to 256, 3 seeds, measured)",
        "斜率：大小 ∝ 宽度^斜率（宽度 32 到 256，3 个种子，实测）",
        lang,
    )
    yield text("about", 0, HEIGHT - 4, words, "soft", 12)
