"""The tool of lesson 12: recorded runs of two optimizers against each other (race_scene), and a
small valley with one rule going down (valley_scene)."""

from __future__ import annotations

from collections.abc import Sequence

from ..frame.controls import Checkbox, Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from . import race_scene, valley_scene
from .challenge import VALLEY, steps
from .recorded import NAMES


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "optimizers",
        ("Optimizer race", "优化器赛跑"),
        controls,
        (
            Panel(
                name="race",
                scene=race_scene.scene,
                controls=("a", "b", "rate", "axis"),
                width=race_scene.WIDTH,
                height=race_scene.HEIGHT,
            ),
            Panel(
                name="valley",
                scene=valley_scene.scene,
                controls=VALLEY,
                width=valley_scene.WIDTH,
                height=valley_scene.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _controls() -> Sequence[Control]:
    runners = tuple(NAMES.items())
    return (
        Select(name="a", label=("Blue", "蓝"), options=runners, start=1),
        Select(name="b", label=("Red", "红"), options=runners, start=5),
        Slider(
            name="rate",
            label=("Learning rate: which of its five", "学习率：五个里的第几个"),
            options=(
                (0, ("lowest", "最低")),
                (1, ("2nd", "第 2 个")),
                (2, ("3rd", "第 3 个")),
                (3, ("4th", "第 4 个")),
                (4, ("highest", "最高")),
                (race_scene.BEST, ("each at its best", "各用最好的")),
            ),
            start=1,
        ),
        Select(
            name="axis",
            label=("Loss against", "横轴"),
            options=(
                ("steps", ("steps", "步数")),
                ("tokens", ("tokens", "词元")),
                ("sent", ("bytes sent", "发送的字节")),
                ("kept", ("bytes kept, all six", "保存的字节，全部六个")),
            ),
        ),
        Select(
            name="rule",
            label=("In the valley", "山谷里"),
            options=tuple(valley_scene.RULE_NAMES.items()),
        ),
        Slider(
            name="level",
            label=("Rate", "学习率"),
            by="rule",
            options={
                rule: [(i, f"{rate:g}") for i, rate in enumerate(rates)]
                for rule, rates in valley_scene.VALLEY_RATES.items()
            },
            start=1,
        ),
        Checkbox(name="mixed", label=("Inputs mixed", "混合输入")),
        Slider(
            name="step",
            label=("Step", "步"),
            options=tuple((n, str(n)) for n in valley_scene.MOMENTS),
            play=True,
        ),
    )
