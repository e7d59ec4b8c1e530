"""One layer on one core, as it was measured: the same batch as above, another machine."""

from __future__ import annotations

from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Item, Scene, circle, text
from ..frame.units import digits
from .dots import recorded
from .plane import Plane

WIDTH, HEIGHT = 760, 300
_PLANE = Plane(0.25, 64, 4e9, 200e9)
_XS = ((0.5, "0.5"), (4, "4"), (32, "32"))
_YS = ((5e9, "5 G"), (20e9, "20 G"), (100e9, "100 G"))


def scene(state: State, lang: str) -> Scene:
    """All recorded batches; the chosen one large."""
    found, batch = recorded(), state["batch"]
    chosen_x, chosen_y = found.layer[batch]
    roof = min(found.flops_per_second, chosen_x * found.bytes_per_second)
    items: list[Item] = _PLANE.axes(_XS, _YS, t("FLOPs per byte →", "每字节运算量 →", lang))
    items.append(_PLANE.roof(found.flops_per_second, found.bytes_per_second))
    for other, (x, y) in found.layer.items():
        tip = f"B = {other}"
        items.append(circle(f"dot{other}", _PLANE.x(x), _PLANE.y(y), 5, "blue3", title=tip))
    items.append(circle("chosen", _PLANE.x(chosen_x), _PLANE.y(chosen_y), 8, "fire"))
    ran = t(
        f"B = {batch}: {digits(chosen_y / 1e9)} GFLOP/s measured, {digits(roof / 1e9)} at most.",
        f"B = {batch}：实测 {digits(chosen_y / 1e9)} GFLOP/s，上限 {digits(roof / 1e9)}。",
        lang,
    )
    layer = t(
        "A layer of 4,096 × 8,192 in fp32 on one core. ", "一个核上的 4096 × 8192 层，fp32。", lang
    )
    about = t(", ", "，", lang).join(found.about)
    where = t(f"Recorded: {about}", f"录制：{about}", lang)
    items.append(text("about", 0, HEIGHT - 10, where, "soft", 12))
    return {"items": items, "alt": layer + ran}
