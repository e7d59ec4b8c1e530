"""The challenge of the bottleneck tool: get products off the slope, get a step off memory, and get
it off the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from ..frame.units import percent
from .costs import JOB, SETTING, dots_of, gpu_of, ridge, step_of
from .step_scene import resource_words

PRODUCTS, ARITHMETIC, WAITING = 3, 0.5, 0.3


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """Products over the ridge; arithmetic as the limit; a slow network made bearable."""
    alone = given(controls, model="gpt2", gpu="H100-SXM", length=1024)
    slow = given(controls, model="gpt2", gpu="H100-SXM", length=1024, ranks=64, network="10")
    return (
        Step(
            task=(
                f"GPT-2 on an H100: bring {PRODUCTS} of the 6 matrix products to the right of the"
                " ridge.",
                f"H100 上的 GPT-2：让 6 个矩阵乘法中的 {PRODUCTS} 个越过脊点。",
            ),
            needs=(alone, _need(JOB, _too_few_products)),
            why=(
                "Weights are read once for all tokens, so every doubling of the batch spreads them"
                " over twice as much work.",
                "权重读一次供所有词元使用：批次每翻一倍，分摊到的计算就多一倍。",
            ),
            solution={"batch": 8},
        ),
        Step(
            task=(
                "One GPU: find a job that arithmetic limits, for at least"
                f" {percent(ARITHMETIC)} of its step.",
                f"单张 GPU：找一个受限于算术的任务，算术至少占一步的 {percent(ARITHMETIC)}。",
            ),
            needs=(given(controls, ranks=1), _need(SETTING, _too_little_arithmetic)),
            why=(
                "A wide model does more FLOPs for each number that it touches; a narrow one streams"
                " memory with any batch.",
                "宽的模型对碰到的每个数做更多运算；窄的模型，批次再大也在搬运内存。",
            ),
            solution={"model": "llama3-8b", "batch": 8},
        ),
        Step(
            task=(
                "GPT-2 on 64 H100s, 10 Gb/s for each: wait for the wire during at most"
                f" {percent(WAITING)} of the step.",
                f"64 张 H100 训练 GPT-2，每张 10 Gb/s：等待线路至多占一步的 {percent(WAITING)}。",
            ),
            needs=(slow, _need(SETTING, _waits_too_long)),
            why=(
                "The bytes of a step do not grow with the batch, its computing does. The price is a"
                " larger global batch.",
                "一步的字节数不随批次增长，计算量却会。代价是全局批次变大。",
            ),
            solution={"ranks": 64, "network": "10", "batch": 64},
        ),
    )


def _need(controls: tuple[str, ...], far: Callable[[State, str], str | None]) -> Need:
    return Need(controls=controls, far=far)


def _too_few_products(state: State, lang: str) -> str | None:
    corner = ridge(gpu_of(state))
    right = sum(dot.kind == "matmul" and dot.intensity >= corner for dot in dots_of(state))
    if right >= PRODUCTS:
        return None
    return t(
        f"{right} of {PRODUCTS} products are right of {corner:.0f} FLOPs per byte.",
        f"有 {right} 个矩阵乘法越过每字节 {corner:.0f} 次，要求 {PRODUCTS} 个。",
        lang,
    )


def _too_little_arithmetic(state: State, lang: str) -> str | None:
    step = step_of(state)
    share = step.savings["compute"] / step.step
    if share >= ARITHMETIC:
        return None
    name = resource_words(step.bottleneck, lang)
    return t(
        f"free arithmetic would save {percent(share)} of {percent(ARITHMETIC)};"
        f" the limit is {name}.",
        f"算术可省 {percent(share)}，要求 {percent(ARITHMETIC)}；现在受限于{name}。",
        lang,
    )


def _waits_too_long(state: State, lang: str) -> str | None:
    step = step_of(state)
    share = step.communication / step.step
    if share <= WAITING:
        return None
    return t(
        f"{percent(share)} of the step is waiting, {percent(WAITING)} allowed.",
        f"等待占一步的 {percent(share)}，上限 {percent(WAITING)}。",
        lang,
    )
