"""The planner's fastest layouts that differ in tp or pp, each with what holds it back."""

from __future__ import annotations

import functools

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, rect, text
from ..frame.units import nbytes, percent, seconds
from .costs import PARTS, SITES, Cost, config_of, priced
from .held import found_best
from .words import FILL, layout_words, lines, part_words

WIDTH, HEIGHT = 760, 252
_LENGTH, _PITCH, _TOP, _BAR = 286, 42, 48, 14


def best_of(state: State) -> list[Cost]:
    """The planner's layouts for a cluster, a model and a batch, the fastest first; [] where nothing
    fits."""
    return _best(state["site"], state["model"], state["share"])


@functools.cache
def _best(place: str, model: str, share: int) -> list[Cost]:
    site = SITES[place]
    found = found_best(site.gpu, site.gpus, model, share * site.gpus)
    if isinstance(found[0], str):
        return []
    costs = [
        priced(site, config_of(site, model, share, tp, pp, zero, recompute), held)
        for tp, pp, zero, recompute, held in found
    ]
    return sorted(costs, key=lambda cost: cost.seconds)


def held_back(cost: Cost) -> str:
    """The part, beside computing, that takes most of a step: its bottleneck."""
    return max((part for part in PARTS if part != "compute"), key=cost.parts.__getitem__)


def scene(state: State, lang: str) -> Scene:
    """A row for each layout: what it is, its step in parts, what it loses most time with."""
    best = best_of(state)
    if not best:
        return _nothing(state, lang)
    head = t(
        "The planner's fastest, one for each tp and pp",
        "规划器最快的布局，每组 tp 与 pp 取一个",
        lang,
    )
    items = [
        text("head", 0, 20, head, size=15, bold=True),
        text(
            "bound", 424, 20, t("bottleneck beside computing", "计算之外的瓶颈", lang), "soft", 12
        ),
        text("memory", 610, 20, t("fullest GPU", "最满的 GPU", lang), "soft", 12),
        text("mfu", 760, 20, "MFU", "soft", 12, "end"),
    ]
    hidden = "tp ? · pp ? · dp ? · ZeRO ?"
    for i, cost in enumerate(best):
        name = layout_words(cost.config, lang) if state["shown"] else hidden
        items += _row(i, name, cost, best, lang)
    if not state["shown"]:
        return {"items": items, "alt": _hint(best, lang)}
    first, last = best[0], best[-1]
    alt = t(
        f"The planner's fastest: {layout_words(first.config, lang)}; {seconds(first.seconds)} a"
        f" step, {_loss(first, lang)}. Number {len(best)}: {layout_words(last.config, lang)};"
        f" {seconds(last.seconds)}, {_loss(last, lang)}.",
        f"规划器最快的布局：{layout_words(first.config, lang)}，一步 {seconds(first.seconds)}，"
        f"{_loss(first, lang)}。第 {len(best)} 名：{layout_words(last.config, lang)}，"
        f"{seconds(last.seconds)}，{_loss(last, lang)}。",
        lang,
    )
    return {"items": items, "alt": alt}


def _loss(cost: Cost, lang: str) -> str:
    part = held_back(cost)
    return f"{part_words(part, lang)} {percent(cost.parts[part] / cost.seconds)}"


def _row(i: int, name: str, cost: Cost, best: list[Cost], lang: str) -> list[Item]:
    y, x = _TOP + _PITCH * i, 0.0
    late = cost.seconds / best[0].seconds - 1
    more = f" (+{percent(late)})" if late >= 5e-4 else ""
    items = [text(f"layout{i}", 0, y, name, size=12, bold=not i)]
    for part in PARTS:
        width = _LENGTH * cost.parts[part] / best[-1].seconds
        if width >= 0.3:
            items.append(rect(f"bar{i}-{part}", x, y + 5, width, _BAR, FILL[part]))
            x += width
    items += [
        text(f"time{i}", x + 6, y + 17, f"{seconds(cost.seconds)}{more}", size=12),
        text(f"bound{i}", 424, y + 17, _loss(cost, lang), size=12),
        text(f"held{i}", 610, y + 17, nbytes(cost.held), size=12),
        text(f"mfu{i}", 760, y + 17, percent(cost.mfu), size=12, anchor="end"),
    ]
    return items


def _hint(best: list[Cost], lang: str) -> str:
    """Only how fast they are: who reads the answers first learns little."""
    few, first, last = len(best), seconds(best[0].seconds), seconds(best[-1].seconds)
    return t(
        f"The planner's {few} take {first} to {last} a step. Some solve the challenge: try first,"
        " then tick the box.",
        f"规划器的这 {few} 种一步耗时 {first} 到 {last}。其中有挑战的答案：先自己试，再勾选显示。",
        lang,
    )


def _nothing(state: State, lang: str) -> Scene:
    site = SITES[state["site"]]
    found = found_best(site.gpu, site.gpus, state["model"], state["share"] * site.gpus)
    words = t(*found, lang)
    items = [
        text(f"nothing{i}", 0, 24 + 22 * i, line, "fire", 14, bold=True)
        for i, line in enumerate(lines(words, 96))
    ]
    return {"items": items, "alt": words}
