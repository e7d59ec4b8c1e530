"""What fills a GPU before anything is saved: states, layers, and how both grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config import TrainConfig
from ...i18n import t
from ...text import Table, table

if TYPE_CHECKING:
    from torch import nn

    from ...data.loader import MicroBatch


STATES = ("parameters", "gradients", "optimizer")


def held_table(memory: Mapping[str, Any], of: str) -> Table:
    """What fills a GPU, in GB: weights, gradients, optimizer, saved tensors, and the peak. `of`: of
    what run, for the head."""
    words = {
        "parameters": t("weights, bf16", "权重，bf16"),
        "gradients": t("gradients, bf16", "梯度，bf16"),
        "optimizer": t("optimizer: fp32 weights and two moments", "优化器：fp32 权重与两个矩"),
        "activations": t("saved for the backward pass", "为反向传播保存的张量"),
        "peak": t("most at one moment", "同一时刻的最大值"),
    }
    return table([(of, "GB"), *((name, in_gb(memory[term])) for term, name in words.items())])


def in_gb(nbytes: float) -> str:
    """Bytes in GB, to a tenth."""
    return f"{nbytes / 1e9:.1f}"


def kept_by_layer(model: nn.Module, block: nn.Module, batch: MicroBatch) -> dict[str, int]:
    """Bytes that each layer of `block` keeps for the backward pass, in the order of the forward
    pass; "gelu" is what lies between the MLP's two products."""
    from ...measure.memory import SavedActivations

    readings: list[tuple[str, int]] = []
    hooks = []
    for name, module in block.named_modules():
        if name and name not in ("attention", "mlp"):

            def before(*_: Any, name: str = name) -> None:
                readings.append(("gelu" if name == "mlp.down" else "", saved.now))

            def after(*_: Any, name: str = name) -> None:
                readings.append((name, saved.now))

            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    with SavedActivations(model) as saved:
        model(*batch)
    for hook in hooks:
        hook.remove()
    kept: dict[str, int] = {}
    for (_, start), (name, end) in zip(readings, readings[1:], strict=False):
        if name:
            kept[name] = kept.get(name, 0) + end - start
    return kept


def layers_table(kept: Mapping[str, int], unit: int) -> Table:
    """`kept_by_layer`'s bytes in units, and what they are."""
    what = {
        "attention_norm": t("its input: the residual stream", "它的输入：残差流"),
        "attention.query": t(
            "its input, shared with key and value", "它的输入，与 key、value 共用"
        ),
        "attention.core": t("q, k, v, and what attention gives", "q、k、v，以及注意力的输出"),
        "mlp_norm": t("its input: the residual stream again", "它的输入：又是残差流"),
        "mlp.up": t("its input", "它的输入"),
        "gelu": t("its input, four times as wide", "它的输入，宽度是 4 倍"),
        "mlp.down": t("its input: GELU's output", "它的输入：GELU 的输出"),
    }
    nothing = t("nothing new", "没有新的")
    head = (t("layer", "部件"), t("streams kept", "留下几份"), t("what it is", "是什么"))
    return table(
        [head, *((name, f"{n / unit:.2f}", what.get(name, nothing)) for name, n in kept.items())]
    )


def saved_by(**flags: Any) -> int:
    """Bytes that the forward pass of a tiny GPT really saves: two sequences of 128 tokens unless
    `flags` say otherwise."""
    from ...data.loader import Loader
    from ...measure.memory import SavedActivations
    from ...model import GPT

    config = TrainConfig.of("tiny", **{"seq": 128, "micro_batch": 2, "global_batch": 8} | flags)
    model, micro = GPT(config.model), Loader(config).batch(0).micro_batches[0]
    with SavedActivations(model) as saved:
        model(*micro)
    return saved.peak


def growth_table(growth: Mapping[str, float]) -> Table:
    """By how much each doubling multiplies the saved bytes."""
    names = {
        "micro": t("micro-batch 2 → 4", "微批次 2 → 4"),
        "layers": t("layers 4 → 8", "层数 4 → 8"),
        "fused": t("sequence 128 → 256, fused attention", "长度 128 → 256，融合的注意力"),
        "written": t("sequence 128 → 256, written out", "长度 128 → 256，逐步写出"),
    }
    head = t("doubled", "翻倍的"), t("saved bytes grow by a factor of", "保存的字节变为几倍")
    return table([head, *((names[key], f"{factor:.2f}") for key, factor in growth.items())])


def optimizer_names() -> dict[str, str]:
    """The optimizers that the lesson compares, in words."""
    return {
        "sgd": t("SGD with momentum", "带动量的 SGD"),
        "lion": "Lion",
        "adamw": "AdamW",
        "adafactor": "Adafactor",
        "adam8bit": t("8-bit Adam", "8 位 Adam"),
    }


def optimizer_bytes(model: str, kind: str) -> int:
    """What the optimizer holds of a model in fp32, as estimated."""
    from ...estimate.memory import model_state_bytes

    return model_state_bytes(TrainConfig.of(model, optimizer=kind, global_batch=1))["optimizer"]


def held_by_optimizer(kind: str) -> int | None:
    """What torch's optimizer really holds of the tiny GPT after a step; None where torch has no
    such optimizer."""
    import torch

    from ...measure.memory import storage_bytes
    from ...model import GPT

    makers = {
        "sgd": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9),
        "adamw": torch.optim.AdamW,
        "adafactor": torch.optim.Adafactor,
    }
    if kind not in makers:
        return None
    model = GPT(TrainConfig.of("tiny", global_batch=1).model)
    optimizer = makers[kind](list(model.parameters()))
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    return storage_bytes(
        x for state in optimizer.state.values() for x in state.values() if torch.is_tensor(x)
    )


def optimizers_table(parameters: int) -> Table:
    """Estimated and measured bytes of the tiny GPT, and by the same rules those of Llama 3 8B,
    which has so many `parameters`."""
    rows: list[Sequence[Any]] = [
        (
            "",
            t("estimated, tiny", "估算，tiny"),
            t("measured, tiny", "实测，tiny"),
            t("Llama 3 8B, GB", "Llama 3 8B，GB"),
            t("bytes per parameter", "每个参数的字节数"),
        )
    ]
    for kind, name in optimizer_names().items():
        large, measured = optimizer_bytes("llama3-8b", kind), held_by_optimizer(kind)
        rows.append(
            (
                name,
                f"{optimizer_bytes('tiny', kind):,}",
                "–" if measured is None else f"{measured:,}",
                in_gb(large),
                f"{large / parameters:.2f}",
            )
        )
    return table(rows)


def formulas_table(fused: str, written: str, recomputed: str, llama: str) -> Table:
    """Formulas of the bytes that a block keeps, beside what the block is."""
    blocks = (
        (t("this block, fused", "这种层，融合"), fused),
        (t("written out", "逐步写出"), written),
        (t("recomputed", "重计算"), recomputed),
        (t("Llama 3 8B, CUDA", "Llama 3 8B，CUDA"), llama),
    )
    head = t("block", "层"), t("bytes kept for one micro-batch", "一个微批次要留下的字节")
    return table([head, *blocks])
