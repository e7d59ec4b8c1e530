"""What torch and DeepSpeed do not carry out, and the nearest that works: one sentence each."""

from __future__ import annotations

from math import gcd

from ..config import TrainConfig, divisors
from .refusals_layout import nearest, refuse


def refuse_for_torch(config: TrainConfig) -> None:
    """Raise ConfigError for what torch's own parallelism does not do, or not on gloo."""
    p, model, m = config.parallel, config.model, config.micro_batches
    _context("torch", config)
    _optimizer("torch", config)
    refuse(
        p.gradient_sync == "naive",
        "torch's DDP always sends buckets: leave out --gradient-sync naive, or choose --engine"
        " ours.",
        "torch 的 DDP 总是按桶发送：请去掉 --gradient-sync naive，或改用 --engine ours。",
    )
    refuse(
        config.precision in ("fp16", "bf16-pure", "fp8"),
        f"--engine torch runs fp32 and bf16, not {config.precision}: use --precision bf16, or"
        " --engine ours.",
        f"--engine torch 支持 fp32 与 bf16，不支持 {config.precision}：请改用 --precision bf16，或"
        " --engine ours。",
    )
    refuse(
        p.offload,
        "--engine torch keeps optimizer states on the device: leave out --offload, or choose"
        " --engine ours or deepspeed.",
        "--engine torch 把优化器状态留在设备上：请去掉 --offload，或改用 --engine ours 或"
        " deepspeed。",
    )
    refuse(
        p.zero == 1 and p.dp > 1 and p.tp * p.pp > 1,
        "torch's ZeroRedundancyOptimizer stands on DDP, which takes neither tensor nor pipeline"
        " parallelism: use --zero 2 or --zero 0, or --engine ours.",
        "torch 的 ZeroRedundancyOptimizer 建立在 DDP 之上，而 DDP"
        " 不能与张量并行或流水线并行组合：请改用 --zero 2 或 --zero 0，或 --engine ours。",
    )
    common = gcd(model.kv_heads, model.ffn)
    if common % p.tp:
        tp = nearest(p.tp, divisors(common))
        refuse(
            True,
            f"DTensor cuts features into equal runs, and --tp {p.tp} does not divide"
            f" {model.kv_heads} key/value heads and --ffn {model.ffn}: use --tp {tp}, or --engine"
            " ours.",
            f"DTensor 按等长切分特征维，而 --tp {p.tp} 不能同时整除 {model.kv_heads} 个键值头与"
            f" --ffn {model.ffn}：请改用 --tp {tp}，或 --engine ours。",
        )
    if p.pp > 1:
        _pipeline(config, m)


def _pipeline(config: TrainConfig, m: int) -> None:
    p = config.parallel
    refuse(
        config.model.tied,
        "torch.distributed.pipelining has no parameter that two stages share: use --no-tied, or"
        " --engine ours.",
        "torch.distributed.pipelining 不支持两个阶段共享参数：请用 --no-tied，或 --engine ours。",
    )
    refuse(
        p.schedule == "1f1b" and m < p.pp,
        f"torch's 1F1B needs as many micro-batches as stages, and {m} is fewer than --pp {p.pp}:"
        " use a smaller --micro-batch, or --schedule gpipe.",
        f"torch 的 1F1B 要求微批次数不少于阶段数，而 {m} 少于 --pp {p.pp}：请减小 --micro-batch，"
        "或改用 --schedule gpipe。",
    )
    rounds = max(1, m // p.pp)
    refuse(
        p.schedule == "zero-bubble" and m % rounds != 0,
        f"torch's zero-bubble sends {m} micro-batches in {rounds} equal rounds, which does not come"
        f" out even: make their number a multiple of --pp {p.pp}, or choose --engine ours.",
        f"torch 的 zero-bubble 要把 {m} 个微批次平分成 {rounds} 轮，无法整除：请让微批次数为 --pp"
        f" {p.pp} 的倍数，或改用 --engine ours。",
    )
    refuse(
        p.schedule == "zero-bubble" and config.recompute not in ("none", "selective"),
        "torch's zero-bubble goes back through a block several times and would recompute it each"
        " time: use --recompute selective, or --schedule 1f1b.",
        "torch 的 zero-bubble 会多次反向经过同一层，每次都要重新计算：请改用 --recompute"
        " selective，或 --schedule 1f1b。",
    )


def _context(engine: str, config: TrainConfig) -> None:
    cp = config.parallel.cp
    refuse(
        cp > 1,
        f"--engine {engine} keeps every sequence whole here: use --cp 1, or --engine ours for --cp"
        f" {cp}.",
        f"--engine {engine} 在这里不切分序列：请用 --cp 1；要用 --cp {cp}，请改用 --engine ours。",
    )


def _optimizer(engine: str, config: TrainConfig) -> None:
    kind = config.optimizer
    refuse(
        kind not in ("sgd", "adam", "adamw"),
        f"--engine {engine} is given torch's own optimizers: use --optimizer adamw, or --engine"
        f" ours for {kind}.",
        f"--engine {engine} 只使用 torch 自带的优化器：请用 --optimizer adamw；要用 {kind}，请改用"
        " --engine ours。",
    )
    refuse(
        config.init == "mup",
        f"--engine {engine} has one learning rate for all weights here, and mup several: use --init"
        " gpt2, or --engine ours.",
        f"--engine {engine} 在这里对所有权重用同一个学习率，而 mup 需要多个：请用 --init gpt2，"
        "或改用 --engine ours。",
    )
    refuse(
        config.weight_decay > 0,
        f"--engine {engine} runs without weight decay here: leave out --weight-decay, or choose"
        " --engine ours.",
        f"--engine {engine} 在这里不做权重衰减：请去掉 --weight-decay，或改用 --engine ours。",
    )


def refuse_for_deepspeed(config: TrainConfig) -> None:
    """Raise ConfigError for what our DeepSpeed engine does not do, or DeepSpeed itself not on a
    CPU."""
    p = config.parallel
    _context("deepspeed", config)
    _optimizer("deepspeed", config)
    refuse(
        p.tp * p.pp > 1,
        "--engine deepspeed runs ZeRO over --dp alone: use --tp 1 --pp 1, or --engine torch for"
        f" --tp {p.tp} --pp {p.pp}.",
        f"--engine deepspeed 只在 --dp 上运行 ZeRO：请用 --tp 1 --pp 1；要用 --tp {p.tp} --pp"
        f" {p.pp}，请改用 --engine torch。",
    )
    refuse(
        p.gradient_sync == "naive",
        "DeepSpeed always sends buckets: leave out --gradient-sync naive, or choose --engine ours.",
        "DeepSpeed 总是按桶发送：请去掉 --gradient-sync naive，或改用 --engine ours。",
    )
    refuse(
        config.precision in ("fp16", "bf16-pure", "fp8"),
        f"--engine deepspeed runs fp32 and bf16, not {config.precision} (it refuses fp16 on a CPU):"
        " use --precision bf16, or --engine ours.",
        f"--engine deepspeed 支持 fp32 与 bf16，不支持 {config.precision}（DeepSpeed 在 CPU 上拒绝"
        " fp16）：请改用 --precision bf16，或 --engine ours。",
    )
    refuse(
        config.precision == "bf16" and p.zero == 0,
        "DeepSpeed without ZeRO sums bf16 gradients in bf16 and drifts: add --zero 1, or use"
        " --precision fp32.",
        "DeepSpeed 在不用 ZeRO 时以 bf16 累加梯度，误差会不断积累：请加上 --zero 1，或改用"
        " --precision fp32。",
    )
