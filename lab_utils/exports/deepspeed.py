"""DeepSpeed: its JSON file, as DeepSpeedConfig of the installed version reads it (tests/exports
holds every export to that). Pipeline stages are no entry of it: they are built in Python, by
`PipelineModule(layers, num_stages=…)`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..config import TrainConfig
from .export import Export, Words, refuse


def to_deepspeed(config: TrainConfig, node: int) -> Export:
    """The content of ds_config.json."""
    _refuse(config)
    text = json.dumps(_content(config), indent=2)
    return Export("deepspeed", text, tuple(_notes(config)))


def _refuse(config: TrainConfig) -> None:
    p = config.parallel
    refuse(
        p.pp > 1 and p.schedule != "1f1b",
        f"DeepSpeed's pipeline runs 1F1B, not {p.schedule}: plan with --schedule 1f1b.",
        f"DeepSpeed 的流水线只有 1F1B，没有 {p.schedule}：请改用 --schedule 1f1b。",
    )
    refuse(
        p.pp > 1 and p.zero > 1,
        f"DeepSpeed's pipeline takes ZeRO 0 and 1, not {p.zero}: use --zero 1, or --pp 1.",
        f"DeepSpeed 的流水线只能配合 ZeRO 0 与 1，不能用 {p.zero}：请改用 --zero 1，或 --pp 1。",
    )
    refuse(
        p.cp > 1 and p.cp_kind == "ring",
        "DeepSpeed cuts sequences by swapping heads for tokens (Ulysses): use --cp-kind"
        " all-to-all.",
        "DeepSpeed 以用头换词元（Ulysses）的方式切分序列：请改用 --cp-kind all-to-all。",
    )
    refuse(
        p.tp > 1 and (p.pp > 1 or p.cp > 1),
        "DeepSpeed's own tensor parallelism (AutoTP) comes without pipeline and without --cp: use"
        " --tp 1, or export to megatron.",
        "DeepSpeed 自带的张量并行（AutoTP）不能与流水线或 --cp 组合：请用 --tp 1，或导出到"
        " megatron。",
    )
    refuse(
        config.optimizer not in ("adamw", "sgd"),
        f"DeepSpeed's file does not name {config.optimizer}: use --optimizer adamw.",
        f"DeepSpeed 的配置里没有 {config.optimizer}：请改用 --optimizer adamw。",
    )


def _content(config: TrainConfig) -> dict[str, Any]:
    p = config.parallel
    found: dict[str, Any] = {
        "train_batch_size": config.global_batch,
        "train_micro_batch_size_per_gpu": config.micro_batch,
        "gradient_accumulation_steps": config.micro_batches,
        "gradient_clipping": config.clip,
        "optimizer": _optimizer(config),
        "zero_optimization": _zero(config),
    }
    if config.precision in ("bf16", "bf16-pure"):
        found["bf16"] = {"enabled": True}
    elif config.precision == "fp16":
        power = config.loss_scale.hex().split("p")[1]
        found["fp16"] = {
            "enabled": True,
            "initial_scale_power": int(power),
            "loss_scale_window": config.loss_scale_window,
        }
    if p.tp > 1:
        found["tensor_parallel"] = {"autotp_size": p.tp}
    if p.cp > 1:
        found["sequence_parallel_size"] = p.cp
    return found


def _optimizer(config: TrainConfig) -> dict[str, Any]:
    if config.optimizer == "sgd":
        return {"type": "SGD", "params": {"momentum": 0.9}}
    params = {"betas": [0.9, 0.95], "weight_decay": 0.0}
    return {"type": "AdamW", "params": params}


def _zero(config: TrainConfig) -> dict[str, Any]:
    p = config.parallel
    width = 4 if config.precision == "fp32" else 2
    found: dict[str, Any] = {"stage": p.zero}
    if p.zero:
        found["overlap_comm"] = True
        found["reduce_bucket_size"] = p.bucket_bytes // width  # in elements
    if p.offload:
        found["offload_optimizer"] = {"device": "cpu"}
    return found


def _notes(config: TrainConfig) -> Iterator[Words]:
    p = config.parallel
    if p.pp > 1:
        yield (
            f"Pipeline stages are built in Python: PipelineModule(layers, num_stages={p.pp}).",
            f"流水线阶段在 Python 里建立：PipelineModule(layers, num_stages={p.pp})。",
        )
    if config.recompute != "none":
        yield (
            f"--recompute {config.recompute} is your model's own affair: call torch's checkpoint"
            " (or deepspeed.checkpointing) in it.",
            f"--recompute {config.recompute} 由模型自己实现：在模型中调用 torch 的 checkpoint（或"
            " deepspeed.checkpointing）。",
        )
    if config.precision in ("bf16", "bf16-pure"):
        yield (
            "bf16 here holds weights in bf16 and an fp32 copy in the optimizer.",
            "这里的 bf16 指权重为 bf16，优化器里另有一份 fp32 权重。",
        )
