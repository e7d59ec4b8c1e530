"""The tensor-parallelism tool's challenge: few ranks, then fewer activations, then not beyond the
machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...i18n import t
from ..frame.asked import asked
from ..frame.challenge import Need, Step
from ..frame.controls import Control, State
from ..frame.units import nbytes, percent, seconds
from .costs import SETTING, Cost, cost_of


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """The three steps, each solved by a layout that one would copy."""
    small = {"sequence": False, "model": "llama3-8b", "micro_batch": 1}
    eight = percent(cost_of(small | {"ranks": 8}).waiting)
    large = {"sequence": True, "model": "gpt3-175b", "micro_batch": 1}
    sixteen = percent(cost_of(large | {"ranks": 16}).waiting)
    return (
        Step(
            task=(
                "Llama 3 8B, one sequence at a time: make it fit into 80 GB, with at most 15 % of"
                " the step spent waiting.",
                "Llama 3 8B，每次一条序列：放进 80 GB，等待时间不超过一步的 15 %。",
            ),
            needs=(
                asked(controls, model="llama3-8b", micro_batch=1),
                _at_most(lambda cost: cost.peak, 80e9, nbytes),
                _at_most(lambda cost: cost.waiting, 0.15, percent),
            ),
            why=(
                "Weights, gradients and optimizer states are cut to a quarter; what the ranks send"
                " in an all-reduce hardly grows with their number. Eight ranks would wait for"
                f" {eight} of the step: half as much to compute, as much to send.",
                "权重、梯度和优化器状态都只剩四分之一，而 all-reduce 的发送量几乎不随 rank 数增长。"
                f"用八个 rank，一步有 {eight} 的时间在等待：计算减半，通信不减。",
            ),
            solution={"ranks": 4},
        ),
        Step(
            task=(
                "Two sequences at a time, and 16 of the 80 GB must stay free: at most 64 GB, with"
                " at most 20 % waiting.",
                "每次两条序列，80 GB 中要留出 16 GB：峰值不超过 64 GB，等待不超过 20 %。",
            ),
            needs=(
                asked(controls, model="llama3-8b", micro_batch=2),
                _at_most(lambda cost: cost.peak, 64e9, nbytes),
                _at_most(lambda cost: cost.waiting, 0.20, percent),
            ),
            why=(
                "Between the regions every rank held all tokens. With sequence parallelism it holds"
                " a quarter of them. Its second gather costs a little time; another machine's worth"
                " of ranks would cost more.",
                "区域之间，原来每个 rank 都持有全部词元；序列并行之后只持有四分之一。"
                "第二次收集多花一点时间，但比增加 rank 便宜。",
            ),
            solution={"ranks": 4, "sequence": True, "micro_batch": 2},
        ),
        Step(
            task=(
                "GPT-3 175B, one sequence: a step in at most 1 s, at most 10 GB of saved"
                " activations, at most 20 % waiting. (Its model states need other cuts as well.)",
                "GPT-3 175B，一条序列：一步不超过 1 s，保存的激活值不超过 10 GB，等待不超过 20 %。"
                "（它的模型状态还要靠别的切法。）",
            ),
            needs=(
                asked(controls, model="gpt3-175b", micro_batch=1),
                _at_most(lambda cost: cost.step_seconds, 1.0, seconds),
                _at_most(lambda cost: cost.activations, 10e9, nbytes),
                _at_most(lambda cost: cost.waiting, 0.20, percent),
            ),
            why=(
                "Eight ranks fill a machine. Sixteen would cross to a second one, and wait for"
                f" {sixteen} of every step; Megatron-LM and Llama 3 405B stop at eight as well.",
                "八个 rank 正好用满一台机器。十六个就要跨到第二台，"
                f"每一步有 {sixteen} 的时间在等待。"
                "Megatron-LM 和 Llama 3 405B 也都止于八。",
            ),
            solution={"model": "gpt3-175b", "ranks": 8, "sequence": True},
        ),
    )


def _at_most(of: Callable[[Cost], float], limit: float, words: Callable[[float], str]) -> Need:
    """A bound, for layouts that work at all."""

    def far(state: State, lang: str) -> str | None:
        cost = cost_of(state)
        if cost is None:
            return t(
                f"{state['ranks']} ranks are more than this model has key/value heads.",
                f"{state['ranks']} 个 rank 多于这个模型的键值头数。",
                lang,
            )
        value = of(cost)
        if value <= limit:
            return None
        return t(
            f"{words(value)}, and the limit is {words(limit)}.",
            f"{words(value)}，上限是 {words(limit)}。",
            lang,
        )

    return Need(controls=SETTING, far=far)
