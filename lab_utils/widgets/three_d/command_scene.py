"""The commands of a layout: its export to three frameworks, and its small likeness on this
machine."""

from __future__ import annotations

from ...config import ConfigError
from ...estimate.plan.words import refuse_pins
from ...exports import FRAMEWORKS, export
from ...i18n import t
from ..frame.controls import State
from ..frame.scene import Scene, text
from .costs import SITES, Cost, cost_of
from .step_scene import refusal as why_none
from .words import lines, speaking

WIDTH, HEIGHT = 760, 246
_NAMES = {"megatron": "Megatron-LM", "torchtitan": "torchtitan", "deepspeed": "DeepSpeed"}


def export_command(state: State, cost: Cost, framework: str) -> str:
    """What prints the layout in a framework's words."""
    p, site = cost.config.parallel, SITES[state["site"]]
    return (
        f"python -m lab_utils plan --preset {state['model']} --gpu {site.gpu} --gpus {site.gpus}"
        f" --global-batch {cost.config.global_batch} --tp {p.tp} --pp {p.pp} --zero {p.zero}"
        f" --micro-batch 1 --schedule 1f1b --recompute {cost.config.recompute}"
        f" --export {framework}"
    )


def small_command(cost: Cost) -> str:
    """The layout with every axis cut to two ranks at most, on this machine."""
    p = cost.config.parallel
    axes = [f"--{axis} 2" for axis in ("dp", "pp", "tp") if getattr(p, axis) > 1]
    zero = p.zero if p.dp > 1 else 0
    return " ".join(["python -m lab_utils train", *axes, f"--zero {zero} --micro-batch 3"])


def refusal(state: State, cost: Cost, framework: str, lang: str) -> str | None:
    """Why the planner or a framework cannot have the layout; None where both can."""
    p, site = cost.config.parallel, SITES[state["site"]]
    with speaking(lang):
        try:
            pins = dict(tp=p.tp, pp=p.pp, zero=p.zero, micro_batch=1)
            batch = cost.config.global_batch
            refuse_pins(cost.config.model, site.hardware, site.gpus, batch, pins)
            export(cost.config, framework)
        except ConfigError as error:
            return str(error)
    return None


def scene(state: State, lang: str) -> Scene:
    """A line for each framework, or why it cannot express the layout; and the small run."""
    shown = cost_of(state)
    head = t("Commands of your layout", "你的布局对应的命令", lang)
    items = [text("head", 0, 20, head, size=15, bold=True)]
    if shown is None or not shown.fits:
        words = t("None yet: it does not fit.", "还没有：放不下。", lang)
        if shown is None:
            words = t("None yet: ", "还没有：", lang) + why_none(state, lang)
        items.append(text("none", 0, 46, words, "fire"))
        return {"items": items, "alt": f"{head}{t('. ', '。', lang)}{words}"}
    can, cannot = [], []
    for i, framework in enumerate(FRAMEWORKS):
        why, y = refusal(state, shown, framework, lang), 46 + 50 * i
        command = export_command(state, shown, framework)
        if why:
            cannot.append(_NAMES[framework])
        else:
            can.append(command)
        items.append(text(f"name{i}", 0, y, _NAMES[framework], bold=True))
        told = t("cannot express it: ", "无法表达：", lang) + why if why else command
        for j, words in enumerate(lines(told, 102)):
            items.append(text(f"line{i}-{j}", 108, y + 17 * j, words, "fire" if why else "ink", 12))
    small = small_command(shown)
    items.append(text("small-name", 0, 200, t("small, here", "本机缩小版", lang), bold=True))
    items.append(text("small", 108, 200, small, size=12))
    note = t(
        "every axis cut to two ranks, the tiny model, on this machine's processors",
        "每个轴最多 2 个 rank，tiny 模型，在本机处理器上运行",
        lang,
    )
    items.append(text("small-note", 108, 220, note, "soft", 12))
    return {"items": items, "alt": _summary(head, can, cannot, small, lang)}


def _summary(head: str, can: list[str], cannot: list[str], small: str, lang: str) -> str:
    """The same below the picture, where a command can be copied whole."""
    told = t("; ", "；", lang).join([*can, small])
    if cannot:
        names = t(", ", "、", lang).join(cannot)
        told += t(f". No export to {names}.", f"。不能导出到 {names}。", lang)
    return f"{head}{t(': ', '：', lang)}{told}"
