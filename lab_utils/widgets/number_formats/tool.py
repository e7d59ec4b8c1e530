"""The number format tool.

Two panels: one number on the rulers of all formats, with its bits and what became of it
(number_scene); and the gradients of a real run, which the loss scale moves along the ruler of one
format (gradient_scene). Rounding is `lab_utils.formats`', gradients are recorded (recorded).
"""

from __future__ import annotations

from ..frame.controls import Control, Panel, Select, Slider
from ..frame.explorer import Explorer
from ..frame.units import digits
from . import gradient_scene, number_scene
from .challenge import steps
from .counts import NAMES, POWERS, power_words


def explorer(lang: str | None = None) -> Explorer:
    """The tool, in the language in force or in `lang`; display it or write its `html()`."""
    controls = _controls()
    return Explorer(
        "number_formats",
        ("Number formats: what is left of a number?", "数的格式：一个数还剩下多少？"),
        controls,
        (
            Panel(
                name="number",
                scene=number_scene.scene,
                controls=("number",),
                width=number_scene.WIDTH,
                height=number_scene.HEIGHT,
            ),
            Panel(
                name="gradients",
                scene=gradient_scene.scene,
                controls=gradient_scene.CONTROLS,
                width=gradient_scene.WIDTH,
                height=gradient_scene.HEIGHT,
            ),
        ),
        steps(controls),
        lang,
    )


def _number_words(x: float) -> str:
    return f"{x:.3g}" if x < 1e-4 or x >= 1e7 else digits(x, 8).rstrip("0").rstrip(".")


def _controls() -> tuple[Control, ...]:
    numbers = number_scene.NUMBERS
    return (
        Slider(
            name="number",
            label=("A number", "一个数"),
            options=tuple((x, _number_words(x)) for x in numbers),
            start=numbers.index(0.1),
        ),
        Select(
            name="what",
            label=("Gradients of", "梯度"),
            options=(
                ("activations", ("activations", "激活值的梯度")),
                ("weights", ("weights", "权重的梯度")),
            ),
        ),
        Select(name="format", label=("Format", "格式"), options=tuple((n, n) for n in NAMES)),
        Slider(
            name="scale",
            label=("Loss scale S", "损失缩放系数 S"),
            options=tuple((power, power_words(power)) for power in POWERS),
            play=True,
            still=8,
        ),
    )
