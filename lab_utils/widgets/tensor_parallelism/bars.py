"""What tensor parallelism costs a rank: bytes, FLOPs, messages and time, each against one rank's.
Every figure comes from estimate/."""

from __future__ import annotations

from collections.abc import Iterator

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, line, rect, text
from ..frame.units import NO_BREAK, digits, nbytes, percent, seconds
from .costs import MEMORY_BYTES, Cost, config_of, cost_of, yardstick

WIDTH, HEIGHT = 760, 326
_LEFT, _LENGTH, _TOP, _PITCH, _BAR = 170, 420, 100, 36, 22


def scene(state: State, lang: str) -> Scene:
    """Three figures, then a bar for each thing that a rank holds, computes, sends or waits for."""
    cost = cost_of(state)
    if cost is None:
        words = _refused(state, lang)
        return {"items": [text("refused", 0, 46, words, "fire", 16, bold=True)], "alt": words}
    items = [*_figures(cost, lang), *_bars(cost, yardstick(state), lang), *_time(cost, lang)]
    return {"items": items, "alt": _summary(state, cost, lang)}


def _refused(state: State, lang: str) -> str:
    heads = config_of(state).model.kv_heads
    return t(
        f"{heads} key/value heads cannot be shared out to {state['ranks']} ranks.",
        f"{heads} 个键值头无法分给 {state['ranks']} 个 rank。",
        lang,
    )


def _figures(cost: Cost, lang: str) -> Iterator[Item]:
    fits = cost.peak <= MEMORY_BYTES
    figures = (
        (
            t("peak on a GPU", "每张 GPU 的峰值", lang),
            nbytes(cost.peak),
            t("fits into 80 GB", "80 GB 放得下", lang)
            if fits
            else t("more than 80 GB", "超过 80 GB", lang),
        ),
        (
            t("a step takes", "一步耗时", lang),
            seconds(cost.step_seconds),
            t(
                f"of which waiting: {seconds(cost.waiting_seconds)}",
                f"其中等待 {seconds(cost.waiting_seconds)}",
                lang,
            ),
        ),
        (
            t("waiting for messages", "等待通信", lang),
            percent(cost.waiting),
            t("the next product needs the sum", "下一个乘法等着这个和", lang),
        ),
    )
    for i, (name, value, detail) in enumerate(figures):
        ink = "fire" if i == 0 and not fits else "ink"
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, ink, 26, bold=True)
        yield text(f"figure-detail{i}", 256 * i, 66, detail, "soft", 12)


def _rows(cost: Cost, one: Cost, lang: str) -> tuple[tuple[str, str, float, float, str], ...]:
    """(key, name, amount, one rank's, words)."""

    def flops(amount: float) -> str:
        return f"{digits(amount / 1e12)}{NO_BREAK}TFLOP"

    return (
        (
            "states",
            t("model states", "模型状态", lang),
            cost.states,
            one.states,
            nbytes(cost.states),
        ),
        (
            "activations",
            t("saved activations", "保存的激活值", lang),
            cost.activations,
            one.activations,
            nbytes(cost.activations),
        ),
        ("flops", t("computes", "计算量", lang), cost.flops, one.flops, flops(cost.flops)),
    )


def _bars(cost: Cost, one: Cost, lang: str) -> Iterator[Item]:
    head = t(
        "per rank, in a step; the outline is one rank alone",
        "每个 rank 每步；外框是单个 rank",
        lang,
    )
    yield text("head", _LEFT, _TOP - 10, head, "soft", 12)
    for row, (key, name, amount, alone, words) in enumerate(_rows(cost, one, lang)):
        y, share = _TOP + row * _PITCH, min(1.0, amount / alone)
        yield text(f"name-{key}", 0, y + 16, name, bold=True)
        yield rect(f"alone-{key}", _LEFT, y, _LENGTH, _BAR, "void", stroke="rule")
        yield rect(f"bar-{key}", _LEFT, y, _LENGTH * share, _BAR, "blue4", title=words)
        times = t(f"{words}, 1/{alone / amount:.1f}", f"{words}，1/{alone / amount:.1f}", lang)
        yield text(f"amount-{key}", _LEFT + _LENGTH + 10, y + 16, times, size=12)
    y = _TOP + 3 * _PITCH
    yield text("name-sent", 0, y + 16, t("sends along tp", "沿 tp 发送", lang), bold=True)
    words = nbytes(cost.sent) if cost.sent else t("nothing", "无", lang)
    yield text("amount-sent", _LEFT, y + 16, words, size=14, bold=True)


def _time(cost: Cost, lang: str) -> Iterator[Item]:
    """The step as one bar: computing, waiting."""
    y = _TOP + 4 * _PITCH
    yield text("name-time", 0, y + 16, t("the step", "这一步", lang), bold=True)
    wait = _LENGTH * cost.waiting
    yield rect("bar-compute", _LEFT, y, _LENGTH - wait, _BAR, "blue4")
    if wait >= 0.05:
        yield rect("bar-wait", _LEFT + _LENGTH - wait, y, wait, _BAR, "fire")
    yield line("time-end", _LEFT + _LENGTH, y - 3, _LEFT + _LENGTH, y + _BAR + 3)
    yield text("amount-time", _LEFT + _LENGTH + 10, y + 16, seconds(cost.step_seconds), size=12)
    key = (("blue4", t("computes", "计算", lang)), ("fire", t("waits", "等待", lang)))
    for i, (fill, words) in enumerate(key):
        x = _LEFT + 120 * i
        yield rect(f"key{i}", x, y + 32, 12, 12, fill, rx=2)
        yield text(f"key-name{i}", x + 18, y + 42, words, size=12)
    note = t(
        "estimated: H100 SXM, 8 to a machine, bf16 weights, AdamW",
        "估算：H100 SXM，每台机器 8 张，bf16 权重，AdamW",
        lang,
    )
    yield text("note", 0, HEIGHT - 6, note, "soft", 12)


def _summary(state: State, cost: Cost, lang: str) -> str:
    ranks, peak, waiting = state["ranks"], nbytes(cost.peak), percent(cost.waiting)
    saved, sent, step = nbytes(cost.activations), nbytes(cost.sent), seconds(cost.step_seconds)
    return t(
        f"On {ranks} ranks: peak {peak} on each, {saved} of saved activations, {sent} sent; a step"
        f" takes {step}, {waiting} of it waiting.",
        f"{ranks} 个 rank：每个峰值 {peak}，保存的激活值 {saved}，发送 {sent}；"
        f"一步 {step}，其中 {waiting} 在等待。",
        lang,
    )
