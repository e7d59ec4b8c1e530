"""The ZeRO tool's challenge: three stages of ZeRO, each where one would really take it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...i18n import t
from ..frame.asked import asked
from ..frame.challenge import Need, Step
from ..frame.controls import Control, State, say
from ..frame.units import NO_BREAK, digits, nbytes
from .costs import Setting, memory, on_gpu
from .traffic import ratio
from .walk import stage_words
from .walk_words import capital

# half of an 80 GB GPU: activations need the rest
ROOM_GB = 40
_HELD = ("model", "precision", "optimizer", "ranks", "micro_batches", "stage")
_SENT = ("model", "precision", "ranks", "micro_batches", "stage")


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """ZeRO-2 where there is one micro-batch, ZeRO-1 where there are eight, ZeRO-3 where one copy of
    the parameters is too much."""
    bf16 = {"precision": "bf16-pure", "optimizer": "adamw"}
    small = Need(controls=_HELD, far=_too_much)
    return (
        Step(
            task=(
                "Llama 3 8B with AdamW in bf16 on 8 GPUs of 80 GB. Half of each is for"
                " activations: at most 40 GB of model states and buffers, and no more traffic than"
                " plain data parallelism.",
                "在 8 张 80 GB 的 GPU 上用 AdamW 和 bf16 训练 Llama 3 8B。显存的一半要留给激活值："
                "模型状态与缓冲区至多 40 GB，通信量不超过普通数据并行。",
            ),
            needs=(
                asked(controls, model="llama3-8b", **bf16, ranks=8),
                small,
                Need(controls=_SENT, far=partial(_sends_too_much, limit=1)),
            ),
            why=(
                "With one micro-batch ZeRO-2 sends what plain data parallelism sends: the sum of"
                " the gradients in two halves, the second with new parameters. And each rank keeps"
                " an eighth of gradients and optimizer states.",
                "只有一个微批次时，ZeRO-2 发送的与普通数据并行一样多：梯度求和拆成两半，"
                "后一半传的是新参数。每个 rank 只留八分之一的梯度与优化器状态。",
            ),
            solution={"ranks": 8, "stage": "2"},
        ),
        Step(
            task=(
                "Now accumulate over 8 micro-batches, on at most 16 GPUs: still 40 GB, still no"
                " more traffic than plain data parallelism.",
                "现在累积 8 个微批次，最多用 16 张 GPU："
                "上限仍是 40 GB，通信量仍不超过普通数据并行。",
            ),
            needs=(
                asked(controls, model="llama3-8b", **bf16, ranks=(2, 4, 8, 16), micro_batches=8),
                Need(controls=_SENT, far=partial(_sends_too_much, limit=1)),
                small,
            ),
            why=(
                "ZeRO-1 keeps all gradients, so it can add up eight micro-batches before it sends"
                " anything; ZeRO-2 and 3 have no place for that sum and send in every micro-batch."
                " The whole gradients cost memory, and more ranks make up for it.",
                "ZeRO-1 保留全部梯度，可以先累加 8 个微批次再通信；"
                "ZeRO-2 和 ZeRO-3 没有地方存放这个和，每个微批次都要通信。"
                "完整的梯度多占的内存，由更多的 rank 补回来。",
            ),
            solution={"ranks": 16, "stage": "1", "micro_batches": 8},
        ),
        Step(
            task=(
                "Llama 3 70B on 64 GPUs, nothing offloaded: 40 GB, and at most 1.5 times the"
                " traffic of plain data parallelism.",
                "在 64 张 GPU 上训练 Llama 3 70B，不做卸载：上限 40 GB，"
                "通信量至多为普通数据并行的 1.5 倍。",
            ),
            needs=(
                asked(controls, model="llama3-70b", **bf16, ranks=64, stage=("0", "1", "2", "3")),
                small,
                Need(controls=_SENT, far=partial(_sends_too_much, limit=1.5)),
            ),
            why=(
                "141 GB of parameters fit on no GPU, so they are sharded too. Gathering them twice"
                " costs half as much again, as long as one micro-batch takes the whole step: with"
                " ZeRO-3 one makes micro-batches large, not many.",
                "141 GB 的参数没有一张 GPU 放得下，所以参数也要分片。每个微批次收集两次，"
                "通信量多出一半；只有一步就是一个微批次时才只多这么些："
                "用 ZeRO-3 时，宁可加大微批次，不要增加个数。",
            ),
            solution={"model": "llama3-70b", "ranks": 64, "stage": "3"},
        ),
    )


def _too_much(state: State, lang: str) -> str | None:
    """By how much the room is exceeded, and by what."""
    setting, stage = Setting.of(state), state["stage"]
    held = memory(setting, stage)
    if on_gpu(held) <= ROOM_GB * 10**9:
        return None
    whole = {
        "0": ("parameters", "gradients", "optimizer"),
        "1": ("parameters", "gradients"),
        "2": ("parameters",),
    }.get(stage, ())
    name, amount = capital(say(stage_words(stage), lang)), nbytes(sum(held[x] for x in whole))
    words = {
        "0": ("every rank keeps all of it", "每个 rank 都保留全部"),
        "1": (
            f"{name} keeps all parameters and gradients, {amount}",
            f"{name} 保留全部参数与梯度，{amount}",
        ),
        "2": (f"{name} keeps all parameters, {amount}", f"{name} 保留全部参数，{amount}"),
    }
    shards = (
        f"everything is sharded already, among {setting.ranks} ranks only",
        f"已全部分片，但只有 {setting.ranks} 个 rank 分担",
    )
    cause = t(*words.get(stage, shards), lang)
    room = f"{ROOM_GB}{NO_BREAK}GB"
    return t(
        f"{nbytes(on_gpu(held))} of {room}: {cause}.",
        f"占用 {nbytes(on_gpu(held))}，上限 {room}：{cause}。",
        lang,
    )


def _sends_too_much(state: State, lang: str, limit: float) -> str | None:
    """Against plain data parallelism, and in which part of the step."""
    setting, stage, m = Setting.of(state), state["stage"], state["micro_batches"]
    times = ratio(setting, stage)
    if times <= limit:
        return None
    name = capital(say(stage_words(stage), lang))
    cause = {
        "1": ("shards are padded", "分片带有填充"),
        "2": (
            f"ZeRO-2 sends the gradients in each of {m} micro-batches",
            f"ZeRO-2 在 {m} 个微批次里各发送一次梯度",
        ),
    }.get(
        stage,
        (
            f"{name} gathers the parameters twice in each of {m} micro-batch{'es' * (m > 1)}",
            f"{name} 在 {m} 个微批次里各收集两次参数",
        ),
    )
    asked_for = digits(limit, 2).removesuffix(".0")
    return t(
        f"{digits(float(times))} × plain data parallelism's traffic, {asked_for} × is asked:"
        f" {cause[0]}.",
        f"通信量是普通数据并行的 {digits(float(times))} 倍，要求至多 {asked_for} 倍：{cause[1]}。",
        lang,
    )
