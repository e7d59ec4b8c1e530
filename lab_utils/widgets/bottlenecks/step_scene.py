"""The step as a bar of what it spends its time on, and what it would save if one resource were
free."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, rect, text
from ..frame.units import nbytes, percent, seconds
from .costs import bytes_of, free_bytes, gpu_of, step_of

WIDTH, HEIGHT = 760, 262
_X, _LENGTH = 190, 480
RESOURCES = ("compute", "memory bandwidth", "network: dp", "latency")


def resource_words(resource: str, lang: str) -> str:
    """What a resource is called."""
    return {
        "compute": t("arithmetic", "算术", lang),
        "memory bandwidth": t("memory bandwidth", "内存带宽", lang),
        "network: dp": t("network", "网络", lang),
        "latency": t("latency", "延迟", lang),
    }[resource]


def scene(state: State, lang: str) -> Scene:
    """A bar of the step's parts; below, a bar for each resource."""
    step = step_of(state)
    limit = t(
        f"Limited by {resource_words(step.bottleneck, lang)}: if that were free, the step would"
        f" be {percent(step.savings[step.bottleneck] / step.step)} shorter.",
        f"受限于{resource_words(step.bottleneck, lang)}：假如它不花时间，一步能缩短"
        f" {percent(step.savings[step.bottleneck] / step.step)}。",
        lang,
    )
    parts = (
        ("compute", step.compute, "blue3", t("forward and backward", "前向与反向", lang)),
        ("wait", step.communication, "fire", t("waiting for the wire", "等待线路", lang)),
        ("update", step.optimizer, "moss", t("optimizer", "优化器", lang)),
    )
    mfu = t(f"MFU {percent(step.mfu)}", f"MFU {percent(step.mfu)}", lang)
    items: list[Item] = [
        text("step", 0, 34, t("one step", "一步", lang) + f" {seconds(step.step)}", bold=True),
        text("mfu", WIDTH - 4, 34, mfu, anchor="end"),
    ]
    at = float(_X)
    for number, (key, amount, fill, name) in enumerate(parts):
        width = _LENGTH * amount / step.step
        items.append(rect(key, at, 18, width, 24, fill, title=f"{name} {seconds(amount)}"))
        items.append(rect(f"{key}-key", _X + 165 * number, 54, 10, 10, fill))
        items.append(text(f"{key}-name", _X + 165 * number + 16, 64, name, size=12))
        at += width
    items.append(
        text("free", 0, 104, t("would save, if free:", "若不花时间可省：", lang), "soft", 12)
    )
    for number, resource in enumerate(RESOURCES):
        y, share = 116 + 26 * number, step.savings[resource] / step.step
        fill = "fire" if resource == step.bottleneck else "stone"
        items.append(text(f"free-{resource}-name", 0, y + 14, resource_words(resource, lang)))
        items.append(rect(f"free-{resource}", _X, y, _LENGTH * min(1.0, share), 18, fill))
        at = _X + _LENGTH * min(1.0, share) + 8
        items.append(text(f"free-{resource}-share", at, y + 14, percent(share), size=12))
    items.extend(_memory(state, lang))
    return {"items": items, "alt": limit + _fits(state, lang)}


def _memory(state: State, lang: str) -> list[Item]:
    """What a GPU holds at most, as a bar in what it has."""
    need, have, y = bytes_of(state), free_bytes(gpu_of(state)), 232
    room = _LENGTH - 70  # the words stand beside it
    width, fill = room * min(1.0, need / have), "fire" if need > have else "moss"
    said = f"{nbytes(need)} / {nbytes(have)}" + ("" if need <= have else " !")
    return [
        text("memory-name", 0, y + 14, t("memory of a GPU", "每张 GPU 的显存", lang)),
        rect("memory-all", _X, y, room, 18, "void", stroke="rule"),
        rect("memory", _X, y, width, 18, fill),
        text("memory-share", WIDTH - 4, y + 14, said, size=12, anchor="end"),
    ]


def _fits(state: State, lang: str) -> str:
    need, have = bytes_of(state), free_bytes(gpu_of(state))
    if need <= have:
        return t(f" It needs {nbytes(need)}, and fits.", f"需要 {nbytes(need)}，放得下。", lang)
    return t(
        f" But it does not fit: {nbytes(need)}, and {nbytes(have)} are free.",
        f"但是放不下：需要 {nbytes(need)}，可用 {nbytes(have)}。",
        lang,
    )
