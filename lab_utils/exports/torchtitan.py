"""torchtitan: its command line, as its ConfigManager of version 0.3.0 reads it (tests/exports holds
every export to that). Since 0.3 it takes no TOML: a model's configuration is a Python function, and
flags change it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..config import TrainConfig
from ..config.presets import PRESETS
from .export import Export, Words, command, refuse

_MODELS = {"llama3-8b": "llama3_8b", "llama3-70b": "llama3_70b", "llama3.1-405b": "llama3_405b"}
_SCHEDULES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zero-bubble": "InterleavedZeroBubble",
}
_RECOMPUTE = {"none": "none", "selective": "selective", "full": "full"}


def to_torchtitan(config: TrainConfig, node: int) -> Export:
    """The command of torchtitan's trainer."""
    name = _model(config)
    _refuse(config)
    flags = [
        ("--module", "llama3"),
        ("--config", name),
        *((f"--{key}", value) for key, value in _layout(config)),
        *((f"--{key}", value) for key, value in _batch_and_numbers(config)),
        *_switches(config),
        (f"activation-checkpoint:{_RECOMPUTE[config.recompute]}",),
    ]
    text = command("-m torchtitan.train", flags, config.parallel, node)
    return Export("torchtitan", text, tuple(_notes(config)))


def _model(config: TrainConfig) -> str:
    """torchtitan's name of a model of this shape, whatever the length of its sequences."""
    for preset, name in _MODELS.items():
        shape = PRESETS[preset] | {"seq": config.model.seq}
        if all(getattr(config.model, field) == value for field, value in shape.items()):
            return name
    refuse(
        True,
        f"torchtitan has no model of this shape: it has those of the presets {', '.join(_MODELS)}.",
        f"torchtitan 没有这种规模的模型：可用的预设是 {'、'.join(_MODELS)}。",
    )
    return ""


def _refuse(config: TrainConfig) -> None:
    p = config.parallel
    refuse(
        p.zero == 1,
        "torchtitan's FSDP shards gradients with the optimizer's states: --zero 1 is not there, use"
        " --zero 2 or 3.",
        "torchtitan 的 FSDP 把梯度与优化器状态一起分片，没有 --zero 1：请改用 --zero 2 或 3。",
    )
    refuse(
        p.cp > 1 and p.zero == 0,
        "torchtitan shards over dp and cp together: with --cp use --zero 2 or 3.",
        "torchtitan 在 dp 与 cp 上一起分片：使用 --cp 时请用 --zero 2 或 3。",
    )
    refuse(
        p.cp > 1 and p.cp_kind != "ring",
        "torchtitan sends keys and values along --cp, it does not swap heads: use --cp-kind ring.",
        "torchtitan 沿 --cp 传递键和值，而不是用头换词元：请改用 --cp-kind ring。",
    )
    refuse(
        p.schedule == "zero-bubble" and p.pp > 1,
        "torchtitan's zero-bubble schedules want two stages on each rank, ours has one: plan with"
        " --schedule 1f1b or interleaved.",
        "torchtitan 的 zero-bubble 调度要求每个进程至少两个阶段，而我们的只有一个：请改用"
        " --schedule 1f1b 或 interleaved。",
    )
    stages = p.pp * p.virtual_stages
    refuse(
        config.model.layers % stages > 0 and p.pp > 1,
        f"{config.model.layers} layers are not shared out equally by {stages} stages, and"
        " torchtitan would cut elsewhere: choose --pp and --virtual-stages whose product divides"
        f" {config.model.layers}.",
        f"{config.model.layers} 层不能由 {stages} 个阶段平分，torchtitan 会切在别处：请让 --pp 与"
        f" --virtual-stages 的乘积整除 {config.model.layers}。",
    )
    refuse(
        config.recompute not in _RECOMPUTE,
        "torchtitan recomputes all blocks alike: use --recompute full, selective or none.",
        "torchtitan 对所有层采用同一种重计算：请改用 --recompute full、selective 或 none。",
    )
    refuse(
        config.precision == "fp16" or config.optimizer != "adamw",
        "torchtitan's Llama trains with AdamW in fp32 or bf16: use --optimizer adamw, --precision"
        " bf16.",
        "torchtitan 的 Llama 用 AdamW，以 fp32 或 bf16 训练：请改用 --optimizer adamw 与"
        " --precision bf16。",
    )


def _layout(config: TrainConfig) -> Iterator[tuple[str, str]]:
    p = config.parallel
    yield "parallelism.data-parallel-replicate-degree", str(1 if p.zero else p.dp)
    yield "parallelism.data-parallel-shard-degree", str(p.dp if p.zero else 1)
    if p.zero:
        kept = "always" if p.zero == 3 else "never"
        yield "parallelism.fsdp-reshard-after-forward", kept
    yield "parallelism.tensor-parallel-degree", str(p.tp)
    yield "parallelism.context-parallel-degree", str(p.cp)
    yield "parallelism.pipeline-parallel-degree", str(p.pp)
    if p.pp > 1:
        yield "parallelism.pipeline-parallel-schedule", _SCHEDULES[p.schedule]
        yield "parallelism.pipeline-parallel-microbatch-size", str(config.micro_batch)
        each = config.model.layers // (p.pp * p.virtual_stages)
        yield "parallelism.pipeline-parallel-layers-per-stage", str(each)
        yield "parallelism.pipeline-parallel-first-stage-less-layers", "0"
        yield "parallelism.pipeline-parallel-last-stage-less-layers", "0"


def _batch_and_numbers(config: TrainConfig) -> Iterator[tuple[str, str]]:
    p = config.parallel
    # with a pipeline the rank's whole share at once, which it cuts into micro-batches itself
    local = config.global_batch // p.dp if p.pp > 1 else config.micro_batch
    yield "training.local-batch-size", str(local)
    yield "training.global-batch-size", str(config.global_batch)
    yield "training.seq-len", str(config.model.seq)
    yield "training.steps", str(config.steps)
    yield "training.dtype", "float32"
    low = config.precision in ("bf16", "bf16-pure")
    yield "training.mixed-precision-param", "bfloat16" if low else "float32"
    yield "training.max-norm", f"{config.clip if config.clip > 0 else float('inf'):g}"


def _switches(config: TrainConfig) -> Iterator[tuple[str]]:
    p = config.parallel
    no = "" if p.sequence_parallel else "no-"
    yield (f"--parallelism.{no}enable-sequence-parallel",)
    if p.pp > 1:
        yield ("--training.disable-cuda-graphs",)  # it refuses them together
    if p.offload:
        yield ("--training.enable-cpu-offload",)


def _notes(config: TrainConfig) -> Iterator[Words]:
    p = config.parallel
    if p.pp > 1 and p.dp * p.cp > 1:
        yield (
            "torchtitan's pipeline is the outermost axis: stages of one pipeline stand on other"
            " machines than in our plan.",
            "torchtitan 的流水线在最外层：同一条流水线的各阶段所在的机器与我们的方案不同。",
        )
    if config.precision == "bf16-pure":
        yield (
            "Weights and gradients are held in fp32 and cast to bf16 for use: 16 bytes a parameter"
            " as with our bf16-pure, cut otherwise.",
            "权重与梯度以 fp32 保存、使用时转为 bf16：每个参数同样 16 字节，只是组成不同。",
        )
