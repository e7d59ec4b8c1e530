"""The 3D planner: 64 ranks on eight machines, who talks to whom, and what the layout costs beside
the planner's own.

Two panels: the machines (grid_scene) and the step (costs, plan_scene), whose numbers are
estimate's.
"""

from __future__ import annotations

from ..frame.controls import Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import grid_scene, plan_scene
from .challenge import steps
from .costs import BATCHES, MODELS, PP, SETTING, TP, ZERO


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "three_d",
        ("3D planner: 64 GPUs, three axes", "3D 规划器：64 张 GPU，三个轴"),
        controls,
        (
            Panel(
                name="grid",
                scene=grid_scene.scene,
                controls=("tp", "pp", "order", "axis"),
                width=grid_scene.WIDTH,
                height=grid_scene.HEIGHT,
            ),
            Panel(
                name="plan",
                scene=plan_scene.scene,
                controls=SETTING,
                width=plan_scene.WIDTH,
                height=plan_scene.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    orders = (
        ("dp, pp, tp", ("dp, pp, tp (ours)", "dp、pp、tp（我们的）")),
        ("pp, dp, tp", ("pp, dp, tp (Megatron's)", "pp、dp、tp（Megatron）")),
        ("tp, pp, dp", ("tp, pp, dp (wrong)", "tp、pp、dp（错误）")),
    )
    return (
        Slider(name="tp", label=("tp", "tp"), options=[(n, str(n)) for n in TP]),
        Slider(name="pp", label=("pp", "pp"), options=[(n, str(n)) for n in PP]),
        Slider(name="zero", label=("ZeRO", "ZeRO"), options=[(n, str(n)) for n in ZERO]),
        Select(name="axis", label=("Show groups of", "显示哪个轴的组"), options=_AXES),
        Select(
            name="order",
            label=("Order of axes, outermost first", "轴的顺序，最外层在前"),
            options=[(tuple(key.split(", ")), words) for key, words in orders],
        ),
        Select(name="model", label=("Model", "模型"), options=[model_option(n) for n in MODELS]),
        Select(
            name="batch",
            label=("Sequences a step", "每步的序列数"),
            options=[(n, str(n)) for n in BATCHES],
        ),
    )


_AXES = [(axis, axis) for axis in ("dp", "tp", "pp")]
