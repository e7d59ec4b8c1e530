"""Products of strategies that make no sense, whoever is to run them: one sentence each, with the
nearest that works."""

from __future__ import annotations

from collections.abc import Iterable
from math import lcm

from ..config import ConfigError, TrainConfig, divisors
from ..i18n import t
from .schedule import refuse_schedule


def refuse_layout(config: TrainConfig) -> None:
    """Raise ConfigError for a product of strategies that makes no sense, whoever is to run it."""
    _zero(config)
    _tensor_parallel(config)
    _context_parallel(config)
    _pipeline(config)
    _eight_bits(config)


def refuse(condition: bool, en: str, zh: str) -> None:
    """Raise ConfigError with this sentence if the condition holds."""
    if condition:
        raise ConfigError(t(en, zh))


def nearest(wanted: int, working: Iterable[int]) -> int:
    """The value closest to what was wanted, the smaller of two."""
    return min(working, key=lambda value: (abs(value - wanted), value))


def _zero(config: TrainConfig) -> None:
    p = config.parallel
    refuse(
        p.zero > 0 and p.gradient_sync == "naive",
        f"--zero {p.zero} sums gradients unit by unit, --gradient-sync naive one by one: leave one"
        " of the two out.",
        f"--zero {p.zero} 按单元归约梯度，--gradient-sync naive 则逐个归约：两者只能选一个。",
    )
    refuse(
        p.offload and p.zero == 0,
        "--offload keeps a rank's shard of the optimizer states in the host's memory, and without"
        " ZeRO there are no shards: add --zero 1, 2 or 3.",
        "--offload 把每个进程的优化器状态分片放到主机内存，而不用 ZeRO 就没有分片：请加上 --zero"
        " 1、2 或 3。",
    )
    refuse(
        p.offload and config.optimizer == "muon",
        "--offload updates weights in the host's memory, and Muon's matrices are made whole between"
        " the devices: leave out --offload, or choose --optimizer adamw.",
        "--offload 在主机内存里更新权重，而 Muon 需要在设备之间把矩阵拼完整：请去掉 --offload，"
        "或改用 --optimizer adamw。",
    )
    refuse(
        p.zero >= 2 and p.schedule == "zero-bubble",
        f"zero-bubble puts gradients of weights off, --zero {p.zero} sends each unit's away as soon"
        " as its backward pass is through: choose --zero 1, or --schedule 1f1b.",
        f"zero-bubble 会推迟计算权重梯度，而 --zero {p.zero}"
        " 要在每个单元反向结束时立即送走梯度：请改用 --zero 1，或 --schedule 1f1b。",
    )


def _eight_bits(config: TrainConfig) -> None:
    p = config.parallel
    fp8 = config.precision == "fp8"
    refuse(
        fp8 and p.tp > 1,
        f"fp8 scales every tensor by its largest element, which --tp {p.tp} would spread over"
        " ranks: use --tp 1, or --precision bf16.",
        f"fp8 按每个张量的最大元素缩放，而 --tp {p.tp} 会把张量分散到多个 rank：请用 --tp 1，"
        "或改用 --precision bf16。",
    )
    refuse(
        fp8 and p.schedule == "zero-bubble",
        "zero-bubble puts gradients of weights off, and fp8's layers compute theirs at once: choose"
        " --schedule 1f1b, or --precision bf16.",
        "zero-bubble 会推迟计算权重梯度，而 fp8 的线性层当场计算：请改用 --schedule 1f1b，"
        "或 --precision bf16。",
    )


def _tensor_parallel(config: TrainConfig) -> None:
    p, model = config.parallel, config.model
    refuse(
        p.tp > model.kv_heads,
        f"--tp {p.tp} leaves ranks without a key/value head: the model has {model.kv_heads}, so"
        f" --tp {model.kv_heads} is the most that works.",
        f"--tp {p.tp} 会让一些进程分不到键值头：模型只有 {model.kv_heads} 个，最多可用 --tp"
        f" {model.kv_heads}。",
    )
    for flag, size in (("ffn", model.ffn), ("vocab", model.vocab)):
        refuse(
            p.tp > size,
            f"--tp {p.tp} cannot share out --{flag} {size}: --tp {size} is the most that works.",
            f"--tp {p.tp} 无法切分 --{flag} {size}：最多可用 --tp {size}。",
        )
    if p.sequence_parallel and p.cp == 1 and model.seq % p.tp:
        tp, seq = nearest(p.tp, divisors(model.seq)), _nearest_multiple(model.seq, p.tp)
        refuse(
            True,
            f"--sequence-parallel shares --seq {model.seq} out equally, and --tp {p.tp} does not"
            f" divide it: use --tp {tp} or --seq {seq}.",
            f"--sequence-parallel 要均分序列，而 --tp {p.tp} 不能整除 --seq {model.seq}：请改用"
            f" --tp {tp} 或 --seq {seq}。",
        )


def _nearest_multiple(wanted: int, of: int) -> int:
    below = wanted // of * of
    return nearest(wanted, (below or of, below + of))


def _context_parallel(config: TrainConfig) -> None:
    p, model = config.parallel, config.model
    if p.cp == 1:
        return
    # the ring gives each rank two chunks; the shares must again be cut by sequence parallelism
    parts = p.cp * (2 if p.cp_kind == "ring" else 1)
    both = lcm(parts, p.cp * p.tp) if p.sequence_parallel else parts
    if model.seq % both:
        seq = _nearest_multiple(model.seq, both)
        refuse(
            True,
            f"--cp {p.cp} ({p.cp_kind}) cuts a sequence into {both} equal parts, and --seq"
            f" {model.seq} is no multiple of that: use --seq {seq}.",
            f"--cp {p.cp}（{p.cp_kind}）要把序列等分成 {both} 份，而 --seq {model.seq}"
            f" 不是它的倍数：请改用 --seq {seq}。",
        )
    refuse(
        p.cp_kind == "ring" and model.attention == "explicit",
        "--cp-kind ring puts the results of fused attention together: use --attention sdpa, or"
        " --cp-kind all-to-all.",
        "--cp-kind ring 合并的是融合注意力的结果：请改用 --attention sdpa，或 --cp-kind"
        " all-to-all。",
    )
    if p.cp_kind == "all-to-all" and (model.kv_heads % (p.tp * p.cp)):
        working = [n for n in divisors(model.kv_heads // p.tp) if model.kv_heads % (p.tp * n) == 0]
        most = nearest(p.cp, working or [1])
        refuse(
            True,
            f"--cp-kind all-to-all shares the {model.kv_heads} key/value heads out over --tp {p.tp}"
            f" × --cp {p.cp} ranks, equally: use --cp {most}, or --cp-kind ring.",
            f"--cp-kind all-to-all 要把 {model.kv_heads} 个键值头平均分给 --tp {p.tp} × --cp"
            f" {p.cp} 个进程：请改用 --cp {most}，或 --cp-kind ring。",
        )


def _pipeline(config: TrainConfig) -> None:
    p, layers, m = config.parallel, config.model.layers, config.micro_batches
    v = p.virtual_stages
    refuse(
        p.schedule == "interleaved" and p.pp == 1,
        "--schedule interleaved has nothing to interleave on one pipeline rank: use --pp 2 or"
        " --schedule 1f1b.",
        "只有一个流水线进程时没有可交错的内容：请使用 --pp 2，或 --schedule 1f1b。",
    )
    refuse(
        p.schedule == "zero-bubble" and p.pp == 1,
        "--schedule zero-bubble fills the bubbles of a pipeline, and one rank has none: use --pp 2,"
        " or --schedule 1f1b.",
        "zero-bubble 用来填补流水线气泡，而单个进程没有气泡：请使用 --pp 2，或 --schedule 1f1b。",
    )
    if p.pp * v > layers:
        most = max(layers // v, 1)
        refuse(
            True,
            f"{p.pp} × {v} pipeline stages need a layer each, and --layers is {layers}: use --pp"
            f" {most}" + (" or fewer virtual stages." if v > 1 else "."),
            f"{p.pp} × {v} 个流水线阶段至少各需一层，而 --layers 只有 {layers}：请使用 --pp {most}"
            + ("，或减少虚拟阶段。" if v > 1 else "。"),
        )
    if p.schedule == "interleaved" and v > 1 and m % p.pp:
        share = config.global_batch // p.dp
        working = [share // count for count in divisors(share) if count % p.pp == 0]
        if working:
            advice = f"--micro-batch {nearest(config.micro_batch, working)}"
            en, zh = f"use {advice}.", f"请使用 {advice}。"
        else:
            batch = -(-config.global_batch // (p.dp * p.pp)) * p.dp * p.pp
            en, zh = (
                f"use --global-batch {batch} with --micro-batch 1.",
                f"请使用 --global-batch {batch} 与 --micro-batch 1。",
            )
        refuse(
            True,
            f"--schedule interleaved sends micro-batches round in groups of --pp {p.pp}, and there"
            f" are {m}: " + en,
            f"--schedule interleaved 以 --pp {p.pp} 个微批次为一组循环，而现在有 {m} 个：" + zh,
        )
    refuse_schedule(p.schedule, p.pp, m, v)
