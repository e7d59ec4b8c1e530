"""The tool of lesson 13: a schedule is chosen or pulled into shape, and the runs that it made are
shown below it; two of them, one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..frame.controls import Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from . import scene
from .challenge import steps
from .grid import COOLDOWNS, ENDS, KINDS, RATES, WARMUPS


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    sides = {"a": _side("a", "constant"), "b": _side("b", "cosine")}
    controls = [control for of_side in sides.values() for control in of_side]
    return Explorer(
        "schedules",
        ("Learning-rate schedules", "学习率调度"),
        controls,
        [
            Panel(
                name=side,
                scene=partial(scene.scene, side),
                controls=tuple(control.name for control in of_side),
                width=scene.WIDTH,
                height=scene.HEIGHT,
            )
            for side, of_side in sides.items()
        ],
        steps(controls),
        lang,
    )


def _side(side: str, kind: str) -> Sequence[Control]:
    name = side.upper()
    return (
        Select(
            name=f"{side}_kind",
            label=(f"{name}: schedule", f"{name}：调度"),
            options=[(one, scene.NAMES[one]) for one in KINDS],
            start=KINDS.index(kind),
        ),
        Slider(
            name=f"{side}_rate",
            label=(f"{name}: highest rate", f"{name}：最高学习率"),
            options=[(one, f"{one:g}") for one in RATES],
            start=len(RATES) - 1,
        ),
        Slider(
            name=f"{side}_warmup",
            label=(f"{name}: warm-up", f"{name}：预热"),
            options=[(n, (f"{n} updates", f"{n} 次更新")) for n in WARMUPS],
        ),
        Slider(
            name=f"{side}_cooldown",
            label=(f"{name}: WSD's cool-down", f"{name}：WSD 的冷却段"),
            options=[(one, _share(one, ("of the run", "全程的"))) for one in COOLDOWNS],
            start=1,
        ),
        Slider(
            name=f"{side}_end",
            label=(f"{name}: rate at the end", f"{name}：最后的学习率"),
            options=[(one, _share(one, ("of the peak", "最高值的"))) for one in ENDS],
        ),
    )


def _share(share: float, of: tuple[str, str]) -> tuple[str, str]:
    return f"{100 * share:.0f} % {of[0]}", f"{of[1]} {100 * share:.0f} %"
