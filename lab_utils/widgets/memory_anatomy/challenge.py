"""The challenge of the memory-anatomy tool: a model that bursts one GPU is made to fit on eight,
then without computing anything twice, then one nine times as large."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...i18n import t
from ..frame.asked import asked
from ..frame.challenge import Need, Step
from ..frame.controls import Control, State
from .options import DEGREES


def ladder(controls: Sequence[Control], panel: str, terms: int) -> tuple[Step, ...]:
    """Shard and recompute; cut the activations too; cut a large model."""
    small = {"model": "llama3-8b", "gpu": "H100-SXM"}
    bf16 = {"precision": ("bf16", "bf16-pure"), "optimizer": "adamw"}
    filled = Need(controls=("filled",), far=partial(_unfinished, terms=terms))

    def on(ranks: int) -> Need:
        return Need(controls=tuple(DEGREES), far=partial(_other_ranks, asked_for=ranks))

    return (
        Step(
            task=(
                "Fill the H100 to the end and see what Llama 3 8B takes, with one sequence of 8,192"
                " tokens. Then make it fit on 8 of them, with AdamW and in bf16.",
                "把 H100 逐项填完，看 Llama 3 8B 用一条 8,192 词元的序列训练时占多少。"
                "然后用 8 张 H100 让它放得下（AdamW，bf16）。",
            ),
            needs=(filled, asked(controls, **small, **bf16), on(8)),
            fits=panel,
            why=(
                "Two cures, one for each half of the problem: ZeRO cuts the states, of which every"
                " GPU had a copy; recomputation keeps one stream a layer.",
                "问题有两半，各有各的办法：ZeRO 切开每张卡都有一份的模型状态；"
                "重计算让每层只留一份残差流。",
            ),
            solution={"filled": terms, "dp": 8, "zero": 1, "recompute": "full"},
        ),
        Step(
            task=(
                "The same model on the same 8 GPUs, with nothing computed twice.",
                "同一个模型、同样的 8 张 GPU，但不做任何重计算。",
            ),
            needs=(
                filled,
                asked(controls, **small, **bf16),
                asked(controls, recompute="none"),
                on(8),
            ),
            fits=panel,
            why=(
                "ZeRO cuts the states only. Tensor parallelism cuts what a layer saves as well:"
                " two GPUs share every matrix and what goes through it, at the price of traffic"
                " within the layer.",
                "ZeRO 只切模型状态；张量并行把一层所保存的也切开："
                "两张卡共分每个矩阵和流经它的数据，"
                "代价是层内的通信。",
            ),
            solution={"filled": terms, "dp": 4, "tp": 2, "zero": 1},
        ),
        Step(
            task=(
                "Llama 3 70B on 64 of these GPUs with at least 8 micro-batches, recomputing the"
                " attention at most.",
                "在 64 张 H100 上训练 Llama 3 70B，至少 8 个微批次，至多只重计算注意力。",
            ),
            needs=(
                filled,
                asked(controls, model="llama3-70b", gpu="H100-SXM", **bf16),
                asked(controls, micro_batches=(8, 32), recompute=("none", "selective")),
                on(64),
            ),
            fits=panel,
            why=(
                "Eight GPUs of a node share each layer, with sequence parallelism also what lies"
                " between its matrices; two stages share the layers, four copies the optimizer"
                " states. And more micro-batches take hardly more memory: the first stage holds two"
                " of them at a time.",
                "一个节点的 8 张卡共分每一层，加上序列并行，矩阵之间的部分也切开；"
                "两个流水线阶段共分各层，4 份副本共分优化器状态。微批次再多也几乎不多占显存："
                "首个阶段同时只留着其中两个。",
            ),
            solution={
                "filled": terms,
                "model": "llama3-70b",
                "micro_batches": 8,
                "dp": 4,
                "tp": 8,
                "sequence_parallel": True,
                "pp": 2,
                "zero": 1,
            },
        ),
    )


def _unfinished(state: State, lang: str, terms: int) -> str | None:
    """How many of the terms are in the picture."""
    if state["filled"] == terms:
        return None
    return t(
        f"{state['filled']} of {terms} terms are counted so far: press Play.",
        f"目前只计入 {terms} 项中的 {state['filled']} 项：请按“播放”。",
        lang,
    )


def _other_ranks(state: State, lang: str, asked_for: int) -> str | None:
    """How many GPUs the degrees multiply to."""
    d, tp, p = (state[axis] for axis in DEGREES)
    if d * tp * p == asked_for:
        return None
    return t(
        f"GPUs: d · t · p = {d * tp * p}; asked: {asked_for}.",
        f"d · t · p = {d * tp * p} 张 GPU，要求 {asked_for} 张。",
        lang,
    )
