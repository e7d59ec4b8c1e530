"""The challenge of the bottleneck tool: get products off the slope, get a step off memory, and get
it off the wire."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from ..frame.units import nbytes, percent
from .costs import JOB, SETTING, bytes_of, dots_of, free_bytes, gpu_of, ridge, step_of
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
                "One GPU: find a job that fits, and that arithmetic limits for at least"
                f" {percent(ARITHMETIC)} of its step.",
                f"单张 GPU：找一个放得下、又受限于算术的任务，算术至少占一步的"
                f" {percent(ARITHMETIC)}。",
            ),
            needs=(
                given(controls, ranks=1),
                _need(SETTING, _too_large),
                _need(SETTING, _too_little_arithmetic),
            ),
            why=(
                "A wider model, or a longer sequence, does more FLOPs for each number that it"
                " touches, and bf16 throughout moves fewer bytes. Larger still, and it is the"
                " capacity of the memory that limits, not its speed.",
                "模型更宽或序列更长，对碰到的每个数就做更多运算；全程 bf16"
                " 则搬运更少的字节。再大，限制你的就是显存容量，而不是它的速度了。",
            ),
            solution={"model": "gpt2-xl", "precision": "bf16-pure", "batch": 8},
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


def _too_large(state: State, lang: str) -> str | None:
    need, have = bytes_of(state), free_bytes(gpu_of(state))
    if need <= have:
        return None
    return t(
        f"needs {nbytes(need)}, {nbytes(have)} are free.",
        f"需要 {nbytes(need)}，可用 {nbytes(have)}。",
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
