"""The challenge of the data-parallelism tool: overlap, then more work per byte, then a fixed
batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...estimate.time import DataParallelStep
from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from ..frame.units import nbytes, percent, seconds
from .costs import SETTING, step_of

FIRST = {"model": "gpt2", "tokens": 2**17, "link": "100", "ranks": 4}
SECOND = {"model": "gpt2", "link": "100", "ranks": 8}
THIRD = {"model": "llama3-8b", "link": "100"}
GOALS = (0.85, 0.9, 0.95)
MOST_TOKENS = 2**21  # in a step of all ranks of the second task
BATCH = 2**23  # of the third


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """The three steps, each solved by a layout that one would copy."""
    solutions = (
        {"sync": "25"},
        {**SECOND, "tokens": 2**18, "sync": "25"},
        {**THIRD, "ranks": 64, "tokens": 2**17, "sync": "25"},
    )
    overlapped = step_of(FIRST | solutions[0])
    narrow = step_of(THIRD | {"ranks": 1024, "tokens": 2**14, "sync": "25"}).scaling_efficiency
    wire = seconds(overlapped.hidden_seconds + overlapped.exposed_seconds)
    hidden = seconds(overlapped.hidden_seconds)
    return (
        Step(
            task=(
                "GPT-2 on 4 ranks over 100 Gb/s, 131,072 tokens on each: reach 85 % scaling"
                " efficiency. Change only how the gradients travel.",
                "GPT-2，4 个 rank，100 Gb/s，每个 rank 131,072 个词元："
                "只改变梯度同步的方式，让扩展效率达到 85 %。",
            ),
            needs=(given(controls, **FIRST), _reach(GOALS[0], FIRST)),
            why=(
                "A bucket leaves as soon as its gradients are there, while the backward pass goes"
                f" on: {hidden} of the {wire} on the wire are hidden.",
                f"一个桶的梯度一齐就出发，反向传播照常进行：{wire} 的通信里有 {hidden} 被掩盖。",
            ),
            solution=solutions[0],
        ),
        Step(
            task=(
                "GPT-2 on 8 ranks over 100 Gb/s: 90 %, with at most 2,097,152 tokens in a step of"
                " all ranks.",
                "GPT-2，8 个 rank，100 Gb/s：达到 90 %，"
                "且所有 rank 合计每步不超过 2,097,152 个词元。",
            ),
            needs=(given(controls, **SECOND), _batch(_at_most), _reach(GOALS[1], SECOND)),
            why=(
                "Twice the tokens, the same gradient: there is twice the work to hide it under, and"
                " what still sticks out is half as much of the step. Gradient accumulation does the"
                " same where memory is short.",
                "词元加倍，梯度不变：能掩盖通信的计算多了一倍，露在外面的部分占一步的比例减半。"
                "显存不够时，梯度累积效果相同。",
            ),
            solution=solutions[1],
        ),
        Step(
            task=(
                "Llama 3 8B over 100 Gb/s with a global batch of 8,388,608 tokens: as many ranks as"
                " you can at 95 %.",
                "Llama 3 8B，100 Gb/s，全局批次 8,388,608 个词元：在 95 % 以上用尽可能多的 rank。",
            ),
            needs=(given(controls, **THIRD), _batch(_exactly), _reach(GOALS[2], THIRD), _many()),
            why=(
                "A fixed batch gives each rank 1/N of its tokens. On 64 ranks the backward pass"
                " still covers the wire; 16,384 tokens on each of 1,024 would leave"
                f" {percent(narrow)}. (To fit, these ranks need ZeRO, lesson 06; stage 2 sends as"
                " many bytes.)",
                "全局批次固定时，每个 rank 分到它的 1/N。64 个 rank 时反向传播仍能掩盖通信；"
                f"若 1,024 个 rank 各 16,384 个词元，就只剩 {percent(narrow)}。"
                "（要放得下还需 ZeRO，见第 06 课；ZeRO-2 的通信量与此相同。）",
            ),
            solution=solutions[2],
        ),
    )


def _reach(goal: float, asked: dict[str, Any]) -> Need:
    """An efficiency, for the states that are asked about."""

    def far(state: State, lang: str) -> str | None:
        if any(state[name] != value for name, value in asked.items()):
            return None  # the need before this one speaks
        step = step_of(state)
        if step.scaling_efficiency >= goal:
            return None
        reached, cause = percent(step.scaling_efficiency), _cause(step, lang)
        return t(
            f"{reached} of {percent(goal)}: {cause}",
            f"{reached}，目标 {percent(goal)}：{cause}",
            lang,
        )

    return Need(controls=SETTING, far=far)


def _cause(step: DataParallelStep, lang: str) -> str:
    """What stands in the way: nothing hidden, one bucket for most, what is ready last, or a wire
    slower than the backward pass."""
    waiting = seconds(step.exposed_seconds)
    if step.hidden_seconds == 0:
        return t(
            f"nothing travels before the backward pass has ended; the ranks wait {waiting}.",
            f"反向传播结束之前什么都没有发送，空等 {waiting}。",
            lang,
        )
    slowest = max(step.buckets, key=lambda bucket: bucket.bytes)
    size = nbytes(slowest.bytes)
    if 2 * slowest.bytes > step.payload_bytes:
        return t(
            f"most of the gradient is one bucket of {size}, ready only at the end of the backward"
            f" pass; the ranks wait {waiting}.",
            f"梯度的大半都在一个 {size} 的桶里，反向传播快结束时它才就绪，空等 {waiting}。",
            lang,
        )
    if any("embedding" in name for name in slowest.names):
        return t(
            f"one of the last buckets holds the embedding, {size}, and little is left to hide it"
            f" under; the ranks wait {waiting}.",
            f"最后几个桶之一装着 {size} 的词嵌入，已没有多少计算可以掩盖它，空等 {waiting}。",
            lang,
        )
    wire = seconds(step.hidden_seconds + step.exposed_seconds)
    backward = seconds(step.backward_seconds)
    return t(
        f"the wire needs {wire}, the backward pass lasts {backward}.",
        f"通信需要 {wire}，而反向传播只有 {backward}。",
        lang,
    )


def _batch(wrong: Callable[[int, str], str | None]) -> Need:
    def far(state: State, lang: str) -> str | None:
        words = wrong(state["ranks"] * state["tokens"], lang)
        return words and f"{state['ranks']:,} × {state['tokens']:,} = {words}"

    return Need(controls=("ranks", "tokens"), far=far)


def _at_most(tokens: int, lang: str) -> str | None:
    if tokens <= MOST_TOKENS:
        return None
    return t(
        f"{tokens:,} tokens in a step, more than {MOST_TOKENS:,}.",
        f"{tokens:,} 个词元，多于 {MOST_TOKENS:,} 个。",
        lang,
    )


def _exactly(tokens: int, lang: str) -> str | None:
    if tokens == BATCH:
        return None
    return t(f"{tokens:,} tokens, not {BATCH:,}.", f"{tokens:,} 个词元，不是 {BATCH:,} 个。", lang)


def _many() -> Need:
    """No more ranks share the batch evenly with any option of the tool than the solution's."""

    def far(state: State, lang: str) -> str | None:
        if state["ranks"] >= 64:
            return None
        return t(
            f"met on {state['ranks']} ranks; more can share this batch.",
            f"{state['ranks']} 个 rank 已达标，但还能让更多 rank 分担这个批次。",
            lang,
        )

    return Need(controls=("ranks",), far=far)
