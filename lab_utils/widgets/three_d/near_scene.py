"""One change away: each neighbour of the layout that is set, how much slower or faster it is, and
why; for a layout that does not fit, how much nearer to fitting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from ..frame.units import nbytes, seconds
from .costs import PARTS, PP, SITES, TP, ZERO, Cost, cost_of
from .step_scene import refusal
from .words import late_words, part_words

WIDTH, HEIGHT = 760, 222
_LEFT, _LENGTH, _TOP, _PITCH, _BAR = 128, 240, 46, 29, 18
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
            f"fits: {nbytes(other.held)}, {seconds(other.seconds)} a step",
            f"放得下：需要 {nbytes(other.held)}，一步 {seconds(other.seconds)}",
            lang,
        )
    late = other.seconds / mine.seconds - 1
    if abs(late) < 5e-4:
        return t("as fast", "一样快", lang)
    more = {part: other.parts[part] - mine.parts[part] for part in PARTS}
    part = (max if late > 0 else min)(more, key=more.__getitem__)
    amount, name = seconds(abs(more[part])), part_words(part, lang)
    told = late_words(late, lang)
    if late > 0:
        return t(f"{told}: {name}, {amount} more", f"{told}：{name}，多 {amount}", lang)
    return t(f"{told}: {name}, {amount} less", f"{told}：{name}，少 {amount}", lang)


def scene(state: State, lang: str) -> Scene:
    """A bar for each neighbour, its change before it, what it does behind it."""
    mine, others = cost_of(state), near(state)
    runs = mine is not None and mine.fits
    head = (
        t("One change away: seconds a step", "只改一处：一步的秒数", lang)
        if runs
        else t("One change away: bytes on the fullest GPU", "只改一处：最满的 GPU 的字节数", lang)
    )
    items = [text("head", 0, 16, head, size=15, bold=True)]
    items += _steps(mine, others, lang) if runs else _memory(state, others, lang)
    told = []
    for i, one in enumerate(others):
        y, words = _TOP + _PITCH * i + 14, _said(state, one, mine, lang)
        ink = "ink" if one.cost and one.cost.fits else "fire"
        items.append(text(f"change{i}", 0, y, _change(one), bold=True))
        items.append(text(f"why{i}", _LEFT + _LENGTH + 12, y, words, ink, 12))
        told.append(f"{_change(one)}{t(': ', '：', lang)}{words}")
    return {"items": items, "alt": f"{head}{t('. ', '。', lang)}{t('; ', '；', lang).join(told)}"}


def _change(one: Near) -> str:
    if one.name == "zero":
        return f"ZeRO-{one.before} → {one.after}"
    return f"{one.name} {one.before} → {one.after}"


def _said(state: State, one: Near, mine: Cost | None, lang: str) -> str:
    if one.cost is None:
        return refusal({**state, one.name: one.after}, lang).rstrip(".。")
    return why(one.cost, mine, lang)


def _steps(mine: Cost, others: Sequence[Near], lang: str) -> Iterator[Item]:
    """Bars as long as their steps; a broken outline where nothing can run."""
    words = t("yours", "你的", lang)
    yield from _mark(_LENGTH / _MOST, f"{words} {seconds(mine.seconds)}", others)
    for i, one in enumerate(others):
        if one.cost is None or not one.cost.fits:
            yield _outline(i)
            continue
        times = one.cost.seconds / mine.seconds
        yield _bar(i, times / _MOST, "blue3" if times > 1 else "leaf")


def _memory(state: State, others: Sequence[Near], lang: str) -> Iterator[Item]:
    """Bars as long as what they need; the line is what is free."""
    free = SITES[state["site"]].free_bytes
    most = max([1.25 * free, *(one.cost.held for one in others if one.cost)])
    words = t(f"{nbytes(free)} are free", f"可用 {nbytes(free)}", lang)
    yield from _mark(_LENGTH * free / most, words, others)
    for i, one in enumerate(others):
        if one.cost is None:
            yield _outline(i)
        else:
            yield _bar(i, one.cost.held / most, "leaf" if one.cost.fits else "fire")


def _mark(at: float, words: str, others: Sequence[Near]) -> Iterator[Item]:
    x = _LEFT + at
    yield line("mark", x, 26, x, _TOP + _PITCH * len(others) - 5, "ink", 2)
    yield text("mark-words", x + 6, 36, words, size=12)


def _bar(i: int, share: float, fill: str) -> Item:
    width = round(_LENGTH * min(1.0, share))
    return rect(f"bar{i}", _LEFT, _TOP + _PITCH * i, width, _BAR, fill)


def _outline(i: int) -> Item:
    shape = {"stroke": "fire", "stroke-dasharray": "4 3"}
    return rect(f"none{i}", _LEFT, _TOP + _PITCH * i, _LENGTH, _BAR, "void", **shape)
