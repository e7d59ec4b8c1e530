"""Megatron-LM: arguments of pretrain_gpt.py. Names as in megatron/training/arguments.py of August
2026 and the configuration classes of megatron-core 0.16.1 (tests/exports says what was held against
which).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..config import ModelConfig, TrainConfig
from ..layout.stages import stage_layers
from .export import Export, Words, command, refuse

_SHARDING = {2: "optim_grads", 3: "optim_grads_params"}  # of Megatron-FSDP


def to_megatron(config: TrainConfig, node: int) -> Export:
    """The command of Megatron-LM's pretrain_gpt.py, on made-up data until you name yours."""
    _refuse(config)
    flags = [
        *_shape(config.model),
        *_layout(config),
        *_batch_and_numbers(config),
        ("--train-iters", str(config.steps)),
        ("--mock-data",),
        ("--tokenizer-type", "NullTokenizer"),
        ("--vocab-size", str(config.model.vocab)),
    ]
    text = command("pretrain_gpt.py", flags, config.parallel, node, _environment(config))
    return Export("megatron", text, tuple(_notes(config)))


def _environment(config: TrainConfig) -> str:
    """With one queue to the GPU kernels begin in the order of the program, and a message before
    what is to compute under it; Megatron refuses to start without, and Megatron-FSDP with it."""
    p = config.parallel
    return "CUDA_DEVICE_MAX_CONNECTIONS=1 " if p.tp * p.cp > 1 and p.zero < 2 else ""


def _refuse(config: TrainConfig) -> None:
    p = config.parallel
    refuse(
        p.pp > 1 and p.schedule in ("gpipe", "zero-bubble"),
        f"Megatron-LM has no {p.schedule} schedule: plan with --schedule 1f1b or interleaved.",
        f"Megatron-LM 没有 {p.schedule} 调度：请改用 --schedule 1f1b 或 interleaved。",
    )
    refuse(
        config.optimizer not in ("adamw", "sgd"),
        f"Megatron-LM's own optimizers are Adam and SGD, not {config.optimizer}: use --optimizer"
        " adamw.",
        f"Megatron-LM 自带的优化器是 Adam 与 SGD，没有 {config.optimizer}：请改用 --optimizer"
        " adamw。",
    )
    refuse(
        config.recompute not in ("none", "selective", "full"),
        "Megatron-LM recomputes all blocks alike: use --recompute full, selective or none.",
        "Megatron-LM 对所有层采用同一种重计算：请改用 --recompute full、selective 或 none。",
    )


def _shape(model: ModelConfig) -> Iterator[tuple[str, ...]]:
    yield "--num-layers", str(model.layers)
    yield "--hidden-size", str(model.hidden)
    yield "--num-attention-heads", str(model.heads)
    if model.kv_heads < model.heads:
        yield ("--group-query-attention",)
        yield "--num-query-groups", str(model.kv_heads)
    if model.head_dim * model.heads != model.hidden:
        yield "--kv-channels", str(model.head_dim)
    yield "--ffn-hidden-size", str(model.ffn)
    yield "--seq-length", str(model.seq)
    yield "--max-position-embeddings", str(model.seq)
    yield "--normalization", "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm"
    if model.activation == "swiglu":
        yield ("--swiglu",)
    rope = model.positions == "rope"
    yield "--position-embedding-type", "rope" if rope else "learned_absolute"
    if not model.bias:
        yield ("--disable-bias-linear",)
    if not model.tied:
        yield ("--untie-embeddings-and-output-weights",)
    yield "--attention-dropout", "0"
    yield "--hidden-dropout", "0"
    yield "--attention-backend", "flash" if model.attention == "sdpa" else "unfused"


def _layout(config: TrainConfig) -> Iterator[tuple[str, ...]]:
    p = config.parallel
    yield "--tensor-model-parallel-size", str(p.tp)
    yield "--pipeline-model-parallel-size", str(p.pp)
    yield "--context-parallel-size", str(p.cp)
    if p.cp > 1:
        yield "--cp-comm-type", "p2p" if p.cp_kind == "ring" else "a2a"
    if p.pp > 1 and p.dp * p.cp > 1:
        yield ("--use-tp-pp-dp-mapping",)  # or data parallelism stands inside the pipeline
    if p.sequence_parallel:
        yield ("--sequence-parallel",)
    if config.model.layers % (p.pp * p.virtual_stages):
        yield "--pipeline-model-parallel-layout", f"'{_uneven(config)}'"
    elif p.virtual_stages > 1:
        yield "--num-virtual-stages-per-pipeline-rank", str(p.virtual_stages)
    if p.zero == 1:
        yield ("--use-distributed-optimizer",)
    elif p.zero > 1:
        yield ("--use-megatron-fsdp",)
        yield ("--use-distributed-optimizer",)
        yield "--ckpt-format", "fsdp_dtensor"
        yield "--data-parallel-sharding-strategy", _SHARDING[p.zero]
        yield ("--no-gradient-accumulation-fusion",)
    if p.replicas > 1:
        yield ("--overlap-grad-reduce",)
        if p.zero:
            yield ("--overlap-param-gather",)


def _uneven(config: TrainConfig) -> str:
    """Stages in order, "|" between them: t a block, E the embedding, L the loss."""
    p = config.parallel
    stages = [
        "t" * len(layers) for layers in stage_layers(config.model.layers, p.pp * p.virtual_stages)
    ]
    stages[0], stages[-1] = "E" + stages[0], stages[-1] + "L"
    return "|".join(stages)


def _batch_and_numbers(config: TrainConfig) -> Iterator[tuple[str, ...]]:
    yield "--micro-batch-size", str(config.micro_batch)
    yield "--global-batch-size", str(config.global_batch)
    if config.precision in ("bf16", "bf16-pure"):
        yield ("--bf16",)
    elif config.precision == "fp16":
        yield ("--fp16",)
        yield "--initial-loss-scale", f"{config.loss_scale:.0f}"
        yield "--loss-scale-window", str(config.loss_scale_window)
    if config.recompute == "selective":
        yield "--recompute-granularity", "selective"
    elif config.recompute == "full":
        yield "--recompute-granularity", "full"
        yield "--recompute-method", "uniform"
        yield "--recompute-num-layers", "1"
    if config.parallel.offload:
        yield ("--optimizer-cpu-offload",)
        yield "--optimizer-offload-fraction", "1.0"
        yield ("--use-precision-aware-optimizer",)
    if config.optimizer == "sgd":
        yield "--optimizer", "sgd"
        yield "--sgd-momentum", "0.9"
    else:
        yield "--optimizer", "adam"
        yield "--adam-beta1", "0.9"
        yield "--adam-beta2", "0.95"
    yield "--lr", "$LR"
    yield "--weight-decay", "0"
    yield "--clip-grad", f"{config.clip:g}"


def _notes(config: TrainConfig) -> Iterator[Words]:
    p = config.parallel
    if p.pp > 1 and p.dp * p.cp > 1:
        yield (
            "--use-tp-pp-dp-mapping gives ranks our order, dp outermost; Megatron's own puts the"
            " pipeline outside.",
            "--use-tp-pp-dp-mapping 使 rank 的排列与我们相同（dp 在最外层）；Megatron"
            " 默认把流水线放在最外层。",
        )
    if config.precision in ("bf16", "bf16-pure"):
        yield (
            "--bf16 holds weights in bf16 and gradients in fp32: 2 bytes a parameter more than our"
            " bf16-pure.",
            "--bf16 的权重为 bf16、梯度为 fp32：每个参数比我们的 bf16-pure 多 2 字节。",
        )
    if config.model.vocab % (128 * p.tp):
        yield (
            f"Megatron pads the vocabulary to a multiple of {128 * p.tp:,}.",
            f"Megatron 会把词表补到 {128 * p.tp:,} 的倍数。",
        )
