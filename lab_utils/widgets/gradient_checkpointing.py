"""The gradient-checkpointing tool: which layers keep their activations, what that saves through a step, and what it costs.

Two panels: a walk through one step (checkpoint_walk), every choice as a dot of bytes against work (checkpoint_tradeoff). Both
are drawn from the estimator's simulation of a step and its ledger (checkpoint_costs); real runs are laid over them.
"""

from __future__ import annotations

from functools import cache

from . import checkpoint_tradeoff, checkpoint_walk
from .checkpoint_costs import ATTENTION, LAYERS, PRESETS, curve, flops, policies, recomputed
from .checkpoint_tradeoff import LIMIT_BYTES
from .checkpoint_walk import MOMENTS, Moment, policy_of
from .controls import Challenge, Checkbox, Control, Panel, Preset, Select, Slider, State
from .explorer import Explorer

_CHOICE = ("what", *(f"layer{layer}" for layer in range(LAYERS)))
_START = Moment("backward", 3)


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    return Explorer(
        ("Gradient checkpointing: keep it or compute it again?", "梯度检查点：保留，还是重新计算？"),
        _controls(),
        (
            Panel(name="step", scene=checkpoint_walk.scene, controls=(*_CHOICE, "moment"), width=checkpoint_walk.WIDTH, height=checkpoint_walk.HEIGHT),
            Panel(name="choices", scene=checkpoint_tradeoff.scene, controls=_CHOICE, width=checkpoint_tradeoff.WIDTH, height=checkpoint_tradeoff.HEIGHT),
        ),
        Challenge(
            task=("Save at most 90 MB at once, with as little recomputation as you can.", "同时保存的激活值不超过 90 MB，且重计算尽可能少。"),
            panel="choices", met=met,
        ),
        lang, _presets(),
    )  # fmt: skip


def met(state: State) -> bool:
    """Whether the choice stays below the limit for the least work that any such choice takes."""
    policy = policy_of(state)
    return curve(policy).peak <= LIMIT_BYTES and flops(policy) == _least_work()


@cache
def _least_work() -> int:
    return min(flops(policy) for policy in policies() if curve(policy).peak <= LIMIT_BYTES)


def _controls() -> tuple[Control, ...]:
    what = (("layers", ("the blocks ticked below", "下面勾选的层")), (ATTENTION, ("the attention of every block", "每层的注意力部分")))
    boxes = (Checkbox(name=f"layer{layer}", label=(f"Block {layer}", f"第 {layer} 层"), start=int(layer in (0, 2, 5))) for layer in range(LAYERS))
    return (
        Select(name="what", label=("Recompute", "重计算"), options=what),
        *boxes,
        Slider(name="moment", label=("Walk through the step", "逐步演示"), options=checkpoint_walk.options(), start=MOMENTS.index(_START), play=True),
    )


def _presets() -> tuple[Preset, ...]:
    words = {"none": ("nothing", "不重计算"), "alternate": ("every other block", "隔层"), "but_last": ("all but the last", "除最后一层外"),
             "full": ("every block", "所有层"), "attention": ("attention only", "仅注意力")}  # fmt: skip
    return tuple(Preset(label=words[name], panel="step", state=_ticked(policy)) for name, policy in PRESETS.items())


def _ticked(policy: str) -> dict[str, object]:
    layers = recomputed(policy)
    return {"what": ATTENTION if policy == ATTENTION else "layers"} | {f"layer{layer}": layer in layers for layer in range(LAYERS)}
