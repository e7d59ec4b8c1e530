"""The 3D planner's challenge: no model parallelism where the batch is large, then without ZeRO-3,
then a model that needs all three axes."""

from __future__ import annotations

from collections.abc import Sequence

from ...i18n import t
from ..frame.asked import asked
from ..frame.challenge import Need, Step
from ..frame.controls import Control, State
from ..frame.units import nbytes, percent
from .costs import SETTING, cost_of
from .step_scene import behind, refusal
from .words import beside_the_planner


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """The three steps, each solved by a layout that one would copy."""
    return (
        Step(
            task=(
                "Llama 3 70B, 64 H100s, 8 sequences a GPU: at most 1 % behind the"
                " planner's layout.",
                "Llama 3 70B，64 张 H100，每张 GPU 8 条序列：最多比规划器的布局慢 1 %。",
            ),
            needs=(asked(controls, site="h100-64", model="llama3-70b", share=8), _near(0.01)),
            why=(
                "Eight sequences for each GPU: passes are long enough for ZeRO-3's weights to"
                " travel behind them. No axis of the model's own is needed.",
                "每张 GPU 有八条序列，前向和反向够长，ZeRO-3 的权重可以在后面传。"
                "模型本身一个轴也不用切。",
            ),
            solution={"share": 8, "zero": 3},
        ),
        Step(
            task=(
                "The same, but your framework offers ZeRO-0 and ZeRO-1 only: at most 3 % behind.",
                "同样的任务，但框架只提供 ZeRO-0 和 ZeRO-1：最多慢 3 %。",
            ),
            needs=(
                asked(controls, site="h100-64", model="llama3-70b", share=8, zero=(0, 1)),
                _near(0.03),
            ),
            why=(
                "tp fills the machine, two stages halve the rest, and ZeRO-1 shares the optimizer"
                " states of four replicas: then nothing has to be recomputed.",
                "tp 用满一台机器，两个阶段再减一半，ZeRO-1 把优化器状态分给四个副本："
                "于是什么都不必重计算。",
            ),
            solution={"share": 8, "tp": 8, "pp": 2, "zero": 1},
        ),
        Step(
            task=(
                "GPT-3 175B, 64 H100s, 8 sequences a GPU: at most 5 % behind.",
                "GPT-3 175B，64 张 H100，每张 GPU 8 条序列：最多慢 5 %。",
            ),
            needs=(asked(controls, site="h100-64", model="gpt3-175b", share=8), _near(0.05)),
            why=(
                "All three axes: half a machine for each layer, eight stages, two pipelines that"
                " share the optimizer states. 256 micro-batches keep the bubble small.",
                "三个轴都用上：每层占半台机器，八个阶段，两条流水线分摊优化器状态。"
                "256 个微批次让气泡很小。",
            ),
            solution={"model": "gpt3-175b", "share": 8, "tp": 4, "pp": 8, "zero": 1},
        ),
    )


def _near(most: float) -> Need:
    """At most so far behind the planner's layout."""

    def far(state: State, lang: str) -> str | None:
        cost = cost_of(state)
        if cost is None:
            return refusal(state, lang)
        late = behind(state)
        if late is None:
            return t(
                f"{nbytes(cost.held)} on the fullest GPU, {nbytes(cost.free)} are free.",
                f"占用最多的 GPU 需要 {nbytes(cost.held)}，可用 {nbytes(cost.free)}。",
                lang,
            )
        if late <= most:
            return None
        told = beside_the_planner(late, lang)
        return t(
            f"{told}; {percent(most)} slower is allowed.",
            f"{told}，最多允许慢 {percent(most)}。",
            lang,
        )

    return Need(controls=SETTING, far=far)
