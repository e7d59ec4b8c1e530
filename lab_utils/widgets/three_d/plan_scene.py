"""The layout's step beside the planner's: what it is made of, what it holds, why it loses."""

from __future__ import annotations

from collections.abc import Iterator

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, rect, text
from ..frame.units import nbytes, percent, seconds
from .costs import FREE_BYTES, GPUS, PARTS, Cost, best_of, cost_of

WIDTH, HEIGHT = 760, 330
_LEFT, _LENGTH, _BAR = 110, 540, 28
_FILL = dict(
    compute="blue4", bubble="stone", tp="fire", pp="plum", dp="sand", optimizer="leaf", cp="blue1"
)


def part_words(part: str, lang: str) -> str:
    """One of PARTS for a reader."""
    words = {
        "compute": ("computing", "计算"),
        "bubble": ("bubble", "气泡"),
        "tp": ("waits for tp", "等待 tp"),
        "pp": ("waits for pp", "等待 pp"),
        "dp": ("waits for dp", "等待 dp"),
        "optimizer": ("optimizer", "优化器"),
    }[part]
    return t(*words, lang)


def layout_of(cost: Cost) -> str:
    """A layout in a line, the same in both languages."""
    p = cost.config.parallel
    return f"tp {p.tp} · pp {p.pp} · dp {p.dp} · ZeRO-{p.zero} · recompute {cost.config.recompute}"


def behind(state: State) -> float | None:
    """Seconds of the layout over the planner's, less 1; None where it cannot run."""
    cost = cost_of(state)
    if cost is None or not cost.fits:
        return None
    return cost.seconds / best_of(state["model"], state["batch"]).seconds - 1


def scene(state: State, lang: str) -> Scene:
    """Figures, two bars, the difference in words, and the commands."""
    cost, best = cost_of(state), best_of(state["model"], state["batch"])
    if cost is None:
        words = t(
            "More than the model's key/value heads, or than the 64 GPUs.",
            "超过了模型的键值头数，或超过了 64 张 GPU。",
            lang,
        )
        return {"items": [text("refused", 0, 40, words, "fire", 16, bold=True)], "alt": words}
    verdict = _verdict(state, cost, best, lang)
    items = [*_figures(cost, lang), *_bars(cost, best, lang), *_foot(state, cost, verdict, lang)]
    return {"items": items, "alt": f"{layout_of(cost)}{t('. ', '。', lang)}{verdict}"}


def _verdict(state: State, cost: Cost, best: Cost, lang: str) -> str:
    if not cost.fits:
        return t(
            f"Does not fit: {nbytes(cost.held)} on the fullest GPU, {nbytes(FREE_BYTES)} are free.",
            f"放不下：占用最多的 GPU 需要 {nbytes(cost.held)}，可用 {nbytes(FREE_BYTES)}。",
            lang,
        )
    late = behind(state)
    if late < 5e-4:
        return t("As fast as the planner's layout.", "与规划器的布局一样快。", lang)
    more = {part: cost.parts[part] - best.parts[part] for part in PARTS}
    worst = max(more, key=more.__getitem__)
    name = part_words(worst, lang)
    return t(
        f"{percent(late)} slower than the planner's; most of all: {name},"
        f" {seconds(more[worst])} more.",
        f"比规划器的慢 {percent(late)}，主要在于：{name}，多 {seconds(more[worst])}。",
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


def _bars(cost: Cost, best: Cost, lang: str) -> Iterator[Item]:
    longest = max(cost.seconds, best.seconds)
    rows = (
        ("yours", t("yours", "你的", lang), cost),
        ("best", t("planner's", "规划器的", lang), best),
    )
    for row, (key, name, one) in enumerate(rows):
        y, x = 92 + 58 * row, float(_LEFT)
        yield text(f"name-{key}", 0, y + 19, name, bold=True)
        yield text(f"layout-{key}", _LEFT, y - 7, layout_of(one), "soft", 12)
        for part in PARTS:
            width = _LENGTH * one.parts[part] / longest
            words = f"{part_words(part, lang)} {seconds(one.parts[part])}"
            if width >= 0.3:
                width = min(width, _LEFT + _LENGTH - x)
                yield rect(f"{key}-{part}", x, y, width, _BAR, _FILL[part], title=words)
            x += width
        yield text(f"time-{key}", _LEFT + _LENGTH + 8, y + 19, seconds(one.seconds), size=12)
    for i, part in enumerate(PARTS):
        x = 126 * i
        yield rect(f"key{i}", x, 194, 12, 12, _FILL[part], rx=2)
        yield text(f"key-name{i}", x + 18, 204, part_words(part, lang), size=12)


def _foot(state: State, cost: Cost, verdict: str, lang: str) -> Iterator[Item]:
    yield text("verdict", 0, 238, verdict, "ink" if cost.fits else "fire", 14, bold=True)
    p = cost.config.parallel
    export = (
        f"python -m lab_utils plan --preset {state['model']} --gpus {GPUS} --global-batch"
        f" {state['batch']} --tp {p.tp} --pp {p.pp} --zero {p.zero} --export megatron"
    )
    axes = " ".join(f"--{axis} 2" for axis in ("dp", "pp", "tp") if getattr(p, axis) > 1)
    small = f"python -m lab_utils train {axes} --zero {p.zero} --micro-batch 3"
    rows = (
        (t("for a cluster", "用于集群", lang), export),
        (t("small, here", "在本机试", lang), small),
    )
    for i, (name, command) in enumerate(rows):
        yield text(f"command-name{i}", 0, 266 + 20 * i, name, "soft", 11)
        yield text(f"command{i}", 84, 266 + 20 * i, command, size=11)
    note = t(
        "estimated: 64 H100 SXM, 8 to a machine, bf16 weights, AdamW, one sequence at a time, 1F1B",
        "估算：64 张 H100 SXM，每台机器 8 张，bf16 权重，AdamW，每次一条序列，1F1B",
        lang,
    )
    yield text("note", 0, HEIGHT - 8, note, "soft", 12)
