"""A small tool with every kind of control, and one panel too large for a table, which asks the kernel."""

from __future__ import annotations

from lab_utils.widgets import Checkbox, Explorer, Panel, Select, Slider
from lab_utils.widgets.controls import State
from lab_utils.widgets.scene import Scene, circle, line, rect, text


def small(state: State, lang: str) -> Scene:
    size, ground = state["size"], state["ground"]
    box, disc = rect("shape", 10, 10, 10 * size, 20, "blue4", title="a shape"), circle("shape", 20, 20, 5 * size, "fire")
    items = [box if state["shape"] == "box" else disc, text("name", 10, 70, f"{state['shape']} {size}")]
    return {"items": [line("ground", 0, 50, 100, 50)] * ground + items, "alt": f"{state['shape']} of size {size}, ground {ground}"}


def large(state: State, lang: str) -> Scene:
    return {"items": [text("sum", 10, 20, f"{state['a']} + {state['b']}")], "alt": f"the sum is {state['a'] + state['b']}"}


def explorer(lang: str = "en", with_large: bool = False) -> Explorer:
    many = [(i, str(i)) for i in range(50)]
    sizes = {"box": [(i, str(i)) for i in (1, 2, 3)], "disc": [(i, str(i)) for i in (1, 2)]}
    controls = [
        Select(name="shape", label=("Shape", "形状"), options=[("box", ("box", "方")), ("disc", ("disc", "圆"))]),
        Slider(name="size", label=("Size", "大小"), options=sizes, by="shape", start=2, play=True),
        Checkbox(name="ground", label=("Ground", "地面")),
        *([Slider(name="a", label="A", options=many), Slider(name="b", label="B", options=many)] if with_large else []),
    ]
    panels = [Panel(name="small", scene=small, controls=("shape", "size", "ground"), width=100, height=80)]
    if with_large:
        panels.append(Panel(name="large", scene=large, controls=("a", "b"), width=100, height=30))
    return Explorer(("A sample", "样例"), controls, panels, lang=lang)
