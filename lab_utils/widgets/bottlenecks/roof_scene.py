"""The operations of one block under a GPU's roof, and far below them a layer measured on one core,
under that core's own roof."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, rect, text
from ..frame.units import digits
from .costs import OpDot, dots_of, gpu_of, ridge
from .dots import recorded
from .plane import HEIGHT as PLANE_HEIGHT
from .plane import LEFT, TOP, Plane
from .plane import WIDTH as PLANE_WIDTH

WIDTH, HEIGHT = 760, 404
_PLANE = Plane(0.25, 20_000, 4e9, 3000e12)
_XS = ((1, "1"), (10, "10"), (100, "100"), (1000, "1,000"), (10_000, "10,000"))
_YS = (
    (10e9, "10 G"),
    (100e9, "100 G"),
    (1e12, "1 T"),
    (10e12, "10 T"),
    (100e12, "100 T"),
    (1e15, "1,000 T"),
)


def scene(state: State, lang: str) -> Scene:
    """Products and attention where the estimator puts them; element-wise work at the left wall."""
    gpu, dots = gpu_of(state), dots_of(state)
    corner = ridge(gpu)
    counted = [dot for dot in dots if dot.intensity]
    items: list[Item] = _PLANE.axes(_XS, _YS, t("FLOPs per byte →", "每字节运算量 →", lang))
    sheet = gpu.peak_flops_per_second, gpu.hbm_bytes_per_second
    items.append(_PLANE.roof("roof", *sheet, "ink"))
    items.extend(_measured(state["batch"], lang))
    at = _PLANE.x(corner)
    name = t(f"ridge: {digits(corner)}", f"脊点：{digits(corner)}", lang)
    items.append(text("ridge", at, TOP - 8, name, "ink", 12, "middle"))
    uncounted = [dot.name for dot in dots if not dot.intensity]
    for dot in dots:
        place = uncounted.index(dot.name) if dot.name in uncounted else 0
        items.append(_mark(dot, place, corner, lang))
    alt = _summary(counted, dots, corner, lang) + _ran(state["batch"], lang)
    return {"items": [*items, *_key(gpu.peak_flops_per_second, lang)], "alt": alt}


def _measured(batch: int, lang: str) -> list[Item]:
    """The core's roof, and a layer on it at every recorded batch; the chosen one large."""
    found = recorded()
    items: list[Item] = [
        _PLANE.roof("core", found.flops_per_second, found.bytes_per_second, "soft")
    ]
    for other, (x, y) in found.layer.items():
        tip = t(f"B = {other}: measured ", f"B = {other}：实测 ", lang)
        tip += f"{digits(y / 1e9)} GFLOP/s"
        size = 8 if other == batch else 4
        items.append(circle(f"core{other}", _PLANE.x(x), _PLANE.y(y), size, "moss", title=tip))
    at = _PLANE.y(found.flops_per_second)
    one = t("one core", "一个核", lang)
    items.append(text("core-name", LEFT + PLANE_WIDTH + 12, at - 4, one, "soft", 12))
    seen = t("measured", "实测", lang)
    items.append(text("core-seen", LEFT + PLANE_WIDTH + 12, at + 12, seen, "soft", 12))
    about = t(", ", "，", lang).join(found.about)
    where = t(
        f"One core: a layer of 4,096 × 8,192 in fp32, recorded: {about}",
        f"一个核：4096 × 8192 的层，fp32，录制于 {about}",
        lang,
    )
    items.append(text("about", 0, HEIGHT - 8, where, "soft", 12))
    return items


def _ran(batch: int, lang: str) -> str:
    found = recorded()
    x, y = found.layer[batch]
    most = min(found.flops_per_second, x * found.bytes_per_second)
    return t(
        f" The layer on one core, batch {batch}: {digits(y / 1e9)} GFLOP/s measured,"
        f" {digits(most / 1e9)} at most.",
        f"一个核上的那一层，批次 {batch}：实测 {digits(y / 1e9)} GFLOP/s，"
        f"上限 {digits(most / 1e9)}。",
        lang,
    )


def _mark(dot: OpDot, place: int, corner: float, lang: str) -> Item:
    if not dot.intensity:
        y = TOP + PLANE_HEIGHT - 12
        return rect(f"op-{dot.name}", LEFT + 4, y - 13 * place, 9, 9, "sand", title=dot.name)
    rate = t("estimated ", "估算 ", lang) + f"{digits(dot.flops_per_second / 1e12)} TFLOP/s"
    tip = (
        f"{dot.name}, I = {digits(dot.intensity)}"
        if lang == "en"
        else (f"{dot.name}，I = {digits(dot.intensity)}")
    )
    fill = "blue4" if dot.intensity >= corner else "fire"
    return circle(
        f"op-{dot.name}",
        _PLANE.x(dot.intensity),
        _PLANE.y(dot.flops_per_second),
        6,
        fill,
        title=tip + t(", ", "，", lang) + rate,
    )


def _key(peak: float, lang: str) -> list[Item]:
    words = (
        ("fire", t("memory limits", "受限于内存", lang)),
        ("blue4", t("arithmetic limits", "受限于算术", lang)),
        ("sand", t("element-wise: memory, at any batch", "逐元素：总受限于内存", lang)),
    )
    found: list[Item] = []
    for i, ((fill, name), x) in enumerate(zip(words, (80, 230, 390), strict=True)):
        found.append(circle(f"key{i}", x, HEIGHT - 36, 5, fill))
        found.append(text(f"key-name{i}", x + 12, HEIGHT - 32, name, size=12))
    at = _PLANE.y(peak) + 4
    found.append(
        text("who", LEFT + PLANE_WIDTH + 12, at, t("data sheet", "规格", lang), "soft", 12)
    )
    return found


def _summary(counted: list[OpDot], dots: tuple[OpDot, ...], corner: float, lang: str) -> str:
    right = sum(dot.intensity >= corner for dot in counted)
    return t(
        f"Of {len(dots)} operations of a block {right} lie right of the ridge at"
        f" {digits(corner)} FLOPs per byte; memory limits the other {len(dots) - right}.",
        f"一层的 {len(dots)} 个运算中，有 {right} 个在脊点（每字节 {digits(corner)} 次）右边；"
        f"其余 {len(dots) - right} 个受限于内存。",
        lang,
    )
