"""A small tool with every kind of control, and no challenge."""

from __future__ import annotations

from lab_utils.widgets.frame import Checkbox, Explorer, Panel, Select, Slider
from lab_utils.widgets.frame.controls import State
from lab_utils.widgets.frame.scene import Scene, circle, line, rect, text


def small(state: State, lang: str) -> Scene:
    size, ground = state["size"], state["ground"]
    box, disc = (
        rect("shape", 10, 10, 10 * size, 20, "blue4", title="a shape"),
        circle("shape", 20, 20, 5 * size, "fire"),
    )
    items = [
        box if state["shape"] == "box" else disc,
        text("name", 10, 70, f"{state['shape']} {size}"),
    ]
    return {
        "items": [line("ground", 0, 50, 100, 50)] * ground + items,
        "alt": f"{state['shape']} of size {size}, ground {ground}",
    }


def explorer(lang: str = "en") -> Explorer:
    sizes = {"box": [(i, str(i)) for i in (1, 2, 3)], "disc": [(i, str(i)) for i in (1, 2)]}
    controls = [
        Select(
            name="shape",
            label=("Shape", "形状"),
            options=[("box", ("box", "方")), ("disc", ("disc", "圆"))],
        ),
        Slider(name="size", label=("Size", "大小"), options=sizes, by="shape", start=2, play=True),
        Checkbox(name="ground", label=("Ground", "地面")),
    ]
    names = tuple(control.name for control in controls)
    panel = Panel(name="small", scene=small, controls=names, width=100, height=80)
    return Explorer("sample", ("A sample", "样例"), controls, [panel], lang=lang)
