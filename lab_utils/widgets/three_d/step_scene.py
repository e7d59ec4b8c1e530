"""The layout's step, in each order of the axes, beside the planner's: what it is made of, what it
holds, why it loses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...config import ModelConfig
from ...config.presets import PRESETS
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, path, rect, text
from ..frame.units import digits, nbytes, percent, seconds
from .best_scene import best_of
from .costs import PARTS, SITES, Cost, cost_of
from .orders import MEGATRON, OURS, WRONG
from .words import FILL, beside_the_planner, layout_words, part_words

WIDTH, HEIGHT = 760, 318
_LEFT, _LENGTH, _BAR, _TOP, _PITCH = 176, 500, 22, 84, 32
_TORN = 2.5  # a bar so many times as long as yours or the planner's is torn off


class Row(NamedTuple):
    """A bar: its key, name and step."""

    key: str
    name: str
    cost: Cost


def behind(state: State) -> float | None:
    """Seconds of the layout over the planner's, less 1; None where it cannot run."""
    cost, best = cost_of(state), best_of(state)
    if cost is None or not cost.fits or not best:
        return None
    return cost.seconds / best[0].seconds - 1


def refusal(state: State, lang: str) -> str:
    """Why a state is no layout."""
    gpus, tp, pp = SITES[state["site"]].gpus, state["tp"], state["pp"]
    if tp * pp > gpus:
        return t(
            f"tp {tp} × pp {pp} is more than {gpus} GPUs.",
            f"tp {tp} × pp {pp} 超过了 {gpus} 张 GPU。",
            lang,
        )
    heads = ModelConfig(**PRESETS[state["model"]]).kv_heads
    return t(
        f"Only {heads} key/value heads: too few for tp {tp}.",
        f"只有 {heads} 个键值头，不够 tp {tp} 用。",
        lang,
    )


def scene(state: State, lang: str) -> Scene:
    """Figures, a bar for each order and one for the planner's layout, the difference in words."""
    cost, best = cost_of(state), best_of(state)
    if cost is None:
        words = refusal(state, lang)
        return {"items": [text("refused", 0, 40, words, "fire", 16, bold=True)], "alt": words}
    rows = [
        Row(name, words, cost_of(state, order))
        for name, words, order in (
            ("ours", t("yours: dp, pp, tp", "你的：dp、pp、tp", lang), OURS),
            ("megatron", t("yours: pp, dp, tp", "你的：pp、dp、tp", lang), MEGATRON),
            ("wrong", t("yours: tp, pp, dp", "你的：tp、pp、dp", lang), WRONG),
        )
    ]
    rows += [Row("best", t("the planner's", "规划器的", lang), best[0])] if best else []
    verdict, torn = _verdict(state, cost, best, lang), _torn(rows, lang)
    items = [*_figures(cost, lang), *_bars(rows), *_legend(lang)]
    if not best:
        words = t("the planner's: nothing fits on this cluster", "规划器：这个集群上都放不下", lang)
        items.append(text("nothing", 0, _TOP + 3 * _PITCH + 16, words, "fire"))
    ink = "ink" if cost.fits else "fire"
    items.append(text("verdict", 0, 266, verdict, ink, 14, bold=True))
    items.append(text("torn", 0, 288, torn, size=13))
    note = t(
        f"estimated: {SITES[state['site']].name}, 8 to a machine, bf16 weights, AdamW, one sequence"
        " at a time, 1F1B; axes outermost first",
        f"估算：{SITES[state['site']].name}，每台机器 8 张，bf16 权重，AdamW，每次一条序列，1F1B；"
        "轴的顺序为最外层在前",
        lang,
    )
    items.append(text("note", 0, HEIGHT - 6, note, "soft", 12))
    alt = f"{layout_words(cost.config, lang)}{t('. ', '。', lang)}{verdict} {torn}"
    return {"items": items, "alt": alt}


def _verdict(state: State, cost: Cost, best: list[Cost], lang: str) -> str:
    if not cost.fits:
        return t(
            f"Does not fit: {nbytes(cost.held)} on the fullest GPU, {nbytes(cost.free)} are free.",
            f"放不下：占用最多的 GPU 需要 {nbytes(cost.held)}，可用 {nbytes(cost.free)}。",
            lang,
        )
    late = behind(state)
    if late < 5e-4:
        return t("As fast as the planner's layout.", "与规划器的布局一样快。", lang)
    more = {part: cost.parts[part] - best[0].parts[part] for part in PARTS}
    worst = max(more, key=more.__getitem__)
    name, told = part_words(worst, lang), beside_the_planner(late, lang)
    return t(
        f"{told}; most of all: {name}, {seconds(more[worst])} more.",
        f"{told}，主要在于：{name}，多 {seconds(more[worst])}。",
        lang,
    )


def _torn(rows: list[Row], lang: str) -> str:
    """What the wrong order costs."""
    ours, wrong = rows[0].cost, rows[2].cost
    times = wrong.seconds / ours.seconds
    outermost = t("With tp outermost", "把 tp 放在最外层，", lang)
    if ours.config.parallel.tp == 1:
        outermost = t("With dp innermost", "把 dp 放在最内层，", lang)
    if abs(times - 1) < 0.005:
        return t("Here the order of axes makes no difference.", "这里轴的顺序没有影响。", lang)
    more = {part: wrong.parts[part] - ours.parts[part] for part in PARTS}
    if times < 1:
        part = min(more, key=more.__getitem__)
        amount, name = seconds(-more[part]), part_words(part, lang)
        return t(
            f"{outermost} the step is {percent(1 - times)} shorter: {name}, {amount} less.",
            f"{outermost}一步反而短 {percent(1 - times)}：{name}，少 {amount}。",
            lang,
        )
    part = max(more, key=more.__getitem__)
    amount, name = seconds(more[part]), part_words(part, lang)
    return t(
        f"{outermost} the step takes {digits(times)} × as long: {name}, {amount} more.",
        f"{outermost}一步耗时变为 {digits(times)} 倍：{name}，多 {amount}。",
        lang,
    )


def _figures(cost: Cost, lang: str) -> Iterator[Item]:
    figures = (
        (t("a step takes", "一步耗时", lang), seconds(cost.seconds), "ink"),
        (
            t("on the fullest GPU", "占用最多的 GPU", lang),
            nbytes(cost.held),
            "ink" if cost.fits else "fire",
        ),
        ("MFU", percent(cost.mfu), "ink"),
    )
    for i, (name, value, ink) in enumerate(figures):
        yield text(f"figure-name{i}", 256 * i, 18, name, "soft")
        yield text(f"figure{i}", 256 * i, 46, value, ink, 26, bold=True)


def _bars(rows: list[Row]) -> Iterator[Item]:
    plain = max(row.cost.seconds for row in rows if row.key in ("ours", "best"))
    longest = min(max(row.cost.seconds for row in rows), _TORN * plain)
    for i, (key, name, cost) in enumerate(rows):
        y, x = _TOP + _PITCH * i, float(_LEFT)
        end = _LEFT + _LENGTH
        yield text(f"name-{key}", 0, y + 16, name, bold=key in ("ours", "best"))
        for part in PARTS:
            width = min(_LENGTH * cost.parts[part] / longest, end - x)
            if width >= 0.3:
                yield rect(f"{key}-{part}", x, y, width, _BAR, FILL[part])
                x += width
        if cost.seconds > 1.001 * longest:
            yield path(f"{key}-torn", f"M{end - 12} {y - 2}l6 13l-6 13", "paper", width=4)
        yield text(f"time-{key}", end + 8, y + 16, seconds(cost.seconds), size=12)


def _legend(lang: str) -> Iterator[Item]:
    for i, part in enumerate(PARTS):
        x = 126 * i
        yield rect(f"key{i}", x, 222, 12, 12, FILL[part], rx=2)
        yield text(f"key-name{i}", x + 18, 232, part_words(part, lang), size=12)
