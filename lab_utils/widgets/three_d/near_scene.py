"""One change away: each neighbour of the layout that is set, how much slower or faster it is, and
why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from ..frame.units import nbytes, percent, seconds
from .costs import PARTS, PP, TP, ZERO, Cost, cost_of
from .words import part_words

WIDTH, HEIGHT = 760, 222
_LEFT, _LENGTH, _TOP, _PITCH, _BAR = 128, 240, 40, 30, 18
_MOST = 2.0  # times yours, at the end of the scale


class Near(NamedTuple):
    """A neighbour: the control that changes, its value, the layout's step (None: no layout)."""

    name: str
    before: int
    after: int
    cost: Cost | None


def near(state: State) -> list[Near]:
    """tp doubled and halved, pp doubled and halved, ZeRO a stage up and down."""
    found = []
    for name, values in (("tp", TP), ("pp", PP), ("zero", ZERO)):
        at = values.index(state[name])
        for i in (at + 1, at - 1):
            if 0 <= i < len(values):
                cost = cost_of({**state, name: values[i]})
                found.append(Near(name, state[name], values[i], cost))
    return found


def why(other: Cost, mine: Cost | None, lang: str) -> str:
    """In a few words, how the neighbour does beside the layout that is set."""
    if not other.fits:
        return t(
            f"does not fit: {nbytes(other.held)}, {nbytes(other.free)} are free",
            f"放不下：需要 {nbytes(other.held)}，可用 {nbytes(other.free)}",
            lang,
        )
    if mine is None or not mine.fits:
        return t(
            f"fits: {seconds(other.seconds)} a step", f"放得下：一步 {seconds(other.seconds)}", lang
        )
    late = other.seconds / mine.seconds - 1
    if abs(late) < 5e-4:
        return t("as fast", "一样快", lang)
    more = {part: other.parts[part] - mine.parts[part] for part in PARTS}
    part = (max if late > 0 else min)(more, key=more.__getitem__)
    amount, name = seconds(abs(more[part])), part_words(part, lang)
    if late > 0:
        return t(
            f"{percent(late)} slower: {name}, {amount} more",
            f"慢 {percent(late)}：{name}，多 {amount}",
            lang,
        )
    return t(
        f"{percent(-late)} faster: {name}, {amount} less",
        f"快 {percent(-late)}：{name}，少 {amount}",
        lang,
    )


def scene(state: State, lang: str) -> Scene:
    """A bar for each neighbour, as long as its step; the line is yours."""
    mine, others = cost_of(state), near(state)
    head = t("One change away", "只改一处", lang)
    items = [text("head", 0, 20, head, size=15, bold=True), *_bars(mine, others, lang)]
    told = [
        f"{_change(one, lang)}{t(': ', '：', lang)}{_said(one, mine, lang)}{t('.', '。', lang)}"
        for one in others
    ]
    return {"items": items, "alt": " ".join([head + t(":", "：", lang), *told])}


def _change(one: Near, lang: str) -> str:
    if one.name == "zero":
        return f"ZeRO-{one.before} → {one.after}"
    return f"{one.name} {one.before} → {one.after}"


def _said(one: Near, mine: Cost | None, lang: str) -> str:
    if one.cost is None:
        return t("no such layout", "没有这种布局", lang)
    return why(one.cost, mine, lang)


def _bars(mine: Cost | None, others: Sequence[Near], lang: str) -> Iterator[Item]:
    fitting = [one.cost.seconds for one in others if one.cost and one.cost.fits]
    runs = mine is not None and mine.fits
    whole = mine.seconds if runs else max(fitting, default=1.0)
    unit = _LENGTH / _MOST / whole  # so many units a second
    if runs:
        x = _LEFT + _LENGTH / _MOST
        yield line("yours", x, 26, x, _TOP + _PITCH * len(others) - 6, "ink", 2)
        words = t("yours", "你的", lang) + f" {seconds(mine.seconds)}"
        yield text("yours-words", x + 6, 32, words, size=12)
    for i, one in enumerate(others):
        y = _TOP + _PITCH * i
        yield text(f"change{i}", 0, y + 14, _change(one, lang), bold=True)
        fits = one.cost is not None and one.cost.fits
        if fits:
            slower = runs and one.cost.seconds > whole
            width = round(min(_LENGTH, unit * one.cost.seconds))
            yield rect(f"bar{i}", _LEFT, y, width, _BAR, "sand" if slower else "leaf")
        else:
            shape = {"stroke": "fire", "stroke-dasharray": "4 3"}
            yield rect(f"none{i}", _LEFT, y, _LENGTH, _BAR, "void", **shape)
        words = _said(one, mine, lang)
        yield text(f"why{i}", _LEFT + _LENGTH + 12, y + 14, words, "ink" if fits else "fire", 12)
