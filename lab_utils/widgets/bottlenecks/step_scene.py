"""The step as a bar of what it spends its time on, and what it would save if one resource were
free."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, rect, text
from ..frame.units import percent, seconds
from .costs import step_of

WIDTH, HEIGHT = 760, 224
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
    return {"items": items, "alt": limit}
