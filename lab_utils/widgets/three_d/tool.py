"""The 3D planner: ranks on machines, who talks to whom, what the layout costs in each order of the
axes beside the planner's own, what lies one change away, and the commands.

Five panels; every number is estimate's (costs, orders, held).
"""

from __future__ import annotations

from ..frame.controls import Checkbox, Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.words import model_option
from . import best_scene, command_scene, grid_scene, near_scene, step_scene
from .challenge import steps
from .costs import MODELS, PP, QUESTION, SETTING, SHARES, SITES, TP, ZERO
from .orders import MEGATRON, OURS, WRONG


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    all_controls = controls()
    drawn = (
        ("grid", grid_scene, ("site", "tp", "pp", "order", "axis")),
        ("step", step_scene, SETTING),
        ("near", near_scene, SETTING),
        ("best", best_scene, (*QUESTION, "shown")),
        ("commands", command_scene, SETTING),
    )
    return Explorer(
        "three_d",
        ("3D planner: three axes on a cluster", "3D 规划器：一个集群，三个轴"),
        all_controls,
        [
            Panel(name=name, scene=one.scene, controls=used, width=one.WIDTH, height=one.HEIGHT)
            for name, one, used in drawn
        ],
        steps(all_controls),
        lang,
    )


def controls() -> tuple[Control, ...]:
    """The cluster, the model and the batch; the layout; what the machines show."""
    orders = (
        (OURS, ("dp, pp, tp (ours)", "dp、pp、tp（我们的）")),
        (MEGATRON, ("pp, dp, tp (Megatron's)", "pp、dp、tp（Megatron）")),
        (WRONG, ("tp, pp, dp (wrong)", "tp、pp、dp（错误）")),
    )
    return (
        Select(
            name="site",
            label=("Cluster", "集群"),
            options=[(key, site.name) for key, site in SITES.items()],
            start=list(SITES).index("h100-64"),
        ),
        Select(
            name="model",
            label=("Model", "模型"),
            options=[model_option(n) for n in MODELS],
            start=MODELS.index("llama3-70b"),
        ),
        Select(
            name="share",
            label=("Sequences a GPU and step", "每步每张 GPU 的序列数"),
            options=[(n, str(n)) for n in SHARES],
        ),
        Slider(name="tp", label=("tp", "tp"), options=[(n, str(n)) for n in TP]),
        Slider(name="pp", label=("pp", "pp"), options=[(n, str(n)) for n in PP]),
        Slider(name="zero", label=("ZeRO", "ZeRO"), options=[(n, str(n)) for n in ZERO]),
        Select(
            name="order",
            label=("Order of axes, outermost first", "轴的顺序，最外层在前"),
            options=orders,
        ),
        Select(
            name="axis",
            label=("Show groups of", "显示哪个轴的组"),
            options=[(axis, axis) for axis in ("tp", "pp", "dp")],
        ),
        Checkbox(name="shown", label=("Show the planner's layouts", "显示规划器的布局")),
    )
