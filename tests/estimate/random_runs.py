"""Random configurations, drawn from a seed: of one process, and of layouts for the closed forms."""

from __future__ import annotations

import random
from collections.abc import Hashable

from lab_utils import TrainConfig
from lab_utils.config import ConfigError, divisors
from lab_utils.layout.refusals import refuse_layout


def of_one_process(seed: int) -> TrainConfig:
    """Every shape, precision and recomputation; RoPE with heads of at least 4 (with 2, torch lays q
    and k out so that fused attention falls back to another kernel)."""
    rng = random.Random(seed)
    heads, layers = rng.choice([1, 2, 3, 4, 6]), rng.choice([1, 2, 3, 5])
    return TrainConfig.of(
        "tiny",
        layers=layers,
        heads=heads,
        hidden=heads * rng.choice([4, 8]),
        head_dim=rng.choice([None, 6, 4]),
        kv_heads=rng.choice(divisors(heads)),
        ffn=rng.choice([None, 20]),
        vocab=rng.choice([256, 300]),
        seq=rng.choice([1, 7, 16, 33]),
        norm=rng.choice(["layernorm", "rmsnorm"]),
        activation=rng.choice(["gelu", "swiglu"]),
        positions=rng.choice(["learned", "rope"]),
        attention=rng.choice(["sdpa", "explicit"]),
        bias=rng.random() < 0.5,
        tied=rng.random() < 0.5,
        optimizer=rng.choice(["sgd", "adamw"]),
        steps=2,
        global_batch=4,
        micro_batch=rng.choice([1, 2, 4]),
        precision=rng.choice(["fp32", "fp32", "bf16", "bf16", "bf16-pure"]),
        recompute=rng.choice(["none", "none", "selective", "full", "0", str(layers - 1)]),
        clip=rng.choice([0.0, 1.0]),
        schedule=rng.choice(["gpipe", "1f1b", "1f1b"]),
    )


def values(config: TrainConfig) -> dict[str, Hashable]:
    """What any two of are to meet (see pairs.py): whatever is drawn here."""
    model, p = config.model, config.parallel
    return dict(
        layers=model.layers,
        heads=model.heads,
        width=model.hidden // model.heads,
        head_dim=model.head_dim,
        kv_heads=model.kv_heads,
        narrow_ffn=model.ffn < 4 * model.hidden,
        vocab=model.vocab,
        seq=model.seq,
        norm=model.norm,
        activation=model.activation,
        positions=model.positions,
        attention=model.attention,
        bias=model.bias,
        tied=model.tied,
        dp=p.dp,
        tp=p.tp,
        pp=p.pp,
        zero=p.zero,
        sequence_parallel=p.sequence_parallel,
        offload=p.offload,
        bucket_mib=p.bucket_mib,
        schedule=p.schedule,
        virtual_stages=p.virtual_stages,
        micro_batch=config.micro_batch,
        micro_batches=config.micro_batches,
        precision=config.precision,
        recompute="some" if "," in config.recompute else config.recompute,
        optimizer=config.optimizer,
        clip=config.clip,
    )


def of_many_ranks(seed: int) -> TrainConfig:
    """Every layout, with runs of up to twelve blocks and up to sixteen micro-batches."""
    rng = random.Random(seed)
    while True:
        llama, layers, tp, pp = (
            rng.random() < 0.5,
            rng.choice([1, 2, 4, 5, 7, 9, 12]),
            rng.choice([1, 1, 2]),
            rng.choice([1, 2, 2, 4]),
        )
        schedule = rng.choice(
            ["gpipe", "1f1b", "interleaved", "zero-bubble"] if pp > 1 else ["gpipe", "1f1b"]
        )
        dp, micro_batch = rng.choice([1, 2, 3]), rng.choice([1, 2])
        flags = dict(
            layers=layers,
            hidden=16,
            heads=4,
            kv_heads=rng.choice([2, 4]),
            ffn=rng.choice([20, 48]),
            vocab=rng.choice([256, 259]),
            seq=rng.choice([4, 8]),
            norm="rmsnorm" if llama else "layernorm",
            activation="swiglu" if llama else "gelu",
            positions="rope" if llama else "learned",
            bias=not llama,
            tied=rng.random() < 0.4,
            attention=rng.choice(["sdpa", "explicit"]),
            dp=dp,
            tp=tp,
            pp=pp,
            zero=rng.choice([0, 1, 2, 3]),
            schedule=schedule,
            virtual_stages=rng.choice([2, 3]) if schedule == "interleaved" else 1,
            precision=rng.choice(["fp32", "bf16", "bf16-pure"]),
            recompute=rng.choice(
                ["none", "none", "selective", "full", "0", ",".join(map(str, range(0, layers, 2)))]
            ),
            optimizer=rng.choice(["sgd", "adamw"]),
            clip=rng.choice([0.0, 1.0]),
            bucket_mib=rng.choice([0.001, 0.01, 4.0]),
            offload=rng.random() < 0.1,
            micro_batch=micro_batch,
            sequence_parallel=tp > 1 and rng.random() < 0.5,
            global_batch=dp * micro_batch * rng.choice([1, 2, 3, 4, 8, 12, 16]),
        )
        try:
            config = TrainConfig.of("tiny", **flags)
            refuse_layout(config)
        except ConfigError:
            continue
        return config
