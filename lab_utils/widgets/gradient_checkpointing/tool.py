"""The gradient-checkpointing tool: which layers keep their activations, what that saves through a
step, and what it costs.

Two panels: a walk through one step (walk), every choice as a dot of bytes against work
(tradeoff). Both are drawn from the estimator's simulation of a step and its ledger
(costs); real runs are laid over them.
"""

from __future__ import annotations

from ..frame.controls import Checkbox, Control, Panel, Preset, Select, Slider
from ..frame.explorer import Explorer
from . import tradeoff, walk_scene
from .challenge import CHOICE, steps
from .costs import ATTENTION, LAYERS, recomputed
from .walk import Moment, options


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    return Explorer(
        "gradient_checkpointing",
        (
            "Gradient checkpointing: keep it or compute it again?",
            "梯度检查点：保留，还是重新计算？",
        ),
        _controls(),
        (
            Panel(
                name="step",
                scene=walk_scene.scene,
                controls=(*CHOICE, "moment"),
                width=walk_scene.WIDTH,
                height=walk_scene.HEIGHT,
                presets=_presets(),
            ),
            Panel(
                name="choices",
                scene=tradeoff.scene,
                controls=CHOICE,
                width=tradeoff.WIDTH,
                height=tradeoff.HEIGHT,
            ),
        ),
        steps(),
        lang,
    )


def _controls() -> tuple[Control, ...]:
    what = (
        ("layers", ("the blocks ticked below", "下面勾选的层")),
        (ATTENTION, ("the attention of every block", "每层的注意力部分")),
    )
    boxes = (
        Checkbox(
            name=f"layer{layer}",
            label=(f"Block {layer}", f"第 {layer} 层"),
            only=("what", "layers"),
        )
        for layer in range(LAYERS)
    )
    return (
        Select(name="what", label=("Recompute", "重计算"), options=what),
        *boxes,
        Slider(
            name="moment",
            label=("Walk through the step", "逐步演示"),
            options=options(),
            play=True,
            still=Moment("backward", 2),
        ),
    )


def _presets() -> tuple[Preset, ...]:
    words = {
        "none": ("nothing", "不重计算"),
        "full": ("every block", "所有层"),
        ATTENTION: ("attention only", "仅注意力"),
    }
    return tuple(Preset(label=words[policy], state=_ticked(policy)) for policy in words)


def _ticked(policy: str) -> dict[str, object]:
    layers = recomputed(policy)
    return {"what": ATTENTION if policy == ATTENTION else "layers"} | {
        f"layer{layer}": layer in layers for layer in range(LAYERS)
    }
