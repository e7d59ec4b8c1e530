"""The challenge of the number format tool: find the valley of fp16, do without a scale, and fit
into a byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from ..frame.units import percent
from .counts import Counts, counts
from .gradient_scene import CONTROLS

LOST = 0.01


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """A loss scale for fp16; a format that needs none; eight bits."""
    return (
        Step(
            task=(
                "fp16, gradients of activations: full precision for at least 95 % of them, and none"
                " may overflow.",
                "fp16，激活值的梯度：至少 95% 保持完整精度，而且不许上溢。",
            ),
            needs=(
                given(controls, what="activations", format="fp16"),
                _need(_overflows),
                _need(_too_few_whole),
            ),
            why=(
                "A power of two moves every gradient by the same distance and changes no mantissa"
                " bit. A dynamic scaler keeps the right end of the histogram just below the top.",
                "2 的幂让所有梯度移动同样的距离，尾数一位不变。"
                "动态缩放器就是让分布的右端紧挨着上限。",
            ),
            solution={"scale": 16},
        ),
        Step(
            task=(
                "No loss scale: S = 2⁰. Hold all gradients of activations with all their bits, in"
                " 16 bits.",
                "不用损失缩放：S = 2⁰。用 16 位以完整精度放下激活值的全部梯度。",
            ),
            needs=(
                given(controls, what="activations", scale=0),
                _need(_wide),
                _need(_not_all_whole),
            ),
            why=(
                "bf16 has the exponent bits of fp32, so nothing needs to be moved. It pays with"
                " three mantissa bits.",
                "bf16 的指数位与 fp32 相同，什么都不用移。代价是少三位尾数。",
            ),
            solution={"format": "bf16", "scale": 0},
        ),
        Step(
            task=(
                "8 bits, gradients of activations: at most 1 % may become zero, none may overflow.",
                "8 位，激活值的梯度：变成零的至多 1%，不许上溢。",
            ),
            needs=(
                given(controls, what="activations"),
                _need(_more_than_a_byte),
                _need(_overflows),
                _need(_too_many_lost),
            ),
            why=(
                "Gradients want range: e5m2 spans 32 powers of two with its subnormals, e4m3 18."
                " That is why e5m2 serves backward, and e4m3 forward, where digits count.",
                "梯度要的是范围：连同次正规数，e5m2 跨 32 个 2 的幂，e4m3 跨 18 个。所以反向用"
                " e5m2，前向看重有效数字，用 e4m3。",
            ),
            solution={"format": "e5m2", "scale": 20},
        ),
    )


def _need(far: Callable[[State, str], str | None]) -> Need:
    return Need(controls=CONTROLS, far=far)


def _counts(state: State) -> Counts:
    return counts(*(state[name] for name in CONTROLS))


def _overflows(state: State, lang: str) -> str | None:
    share = _counts(state).overflow
    if share == 0:
        return None
    return t(
        f"{percent(share)} overflow: one is enough to spoil a step.",
        f"{percent(share)} 上溢：一个就足以毁掉一步。",
        lang,
    )


def _too_few_whole(state: State, lang: str) -> str | None:
    share = _counts(state).normal
    if share >= 0.95:
        return None
    return t(
        f"{percent(share)} of 95 % keep all their bits.",
        f"保持完整精度的有 {percent(share)}，要求 95%。",
        lang,
    )


def _wide(state: State, lang: str) -> str | None:
    if state["format"] in ("fp16", "bf16"):
        return None
    return t(f"{state['format']} has 8 bits.", f"{state['format']} 只有 8 位。", lang)


def _not_all_whole(state: State, lang: str) -> str | None:
    share = _counts(state).normal
    if share == 1:
        return None
    return t(
        f"{percent(share)} of them keep all their bits.",
        f"保持完整精度的有 {percent(share)}。",
        lang,
    )


def _more_than_a_byte(state: State, lang: str) -> str | None:
    if state["format"] in ("e5m2", "e4m3"):
        return None
    return t(f"{state['format']} has 16 bits.", f"{state['format']} 有 16 位。", lang)


def _too_many_lost(state: State, lang: str) -> str | None:
    share = _counts(state).zero
    if share <= LOST:
        return None
    return t(
        f"{percent(share)} become zero, {percent(LOST)} allowed.",
        f"{percent(share)} 变成零，上限 {percent(LOST)}。",
        lang,
    )
