"""The configurations of which cuda_saved_bytes.json says what a whole step holds on a GPU."""

from __future__ import annotations

import random
from typing import Any

from lab_utils.config import divisors

MODELS = ("gpt2", "llama3-8b")  # whole, one sequence of full length
ONE_GPU, TENSOR_PARALLEL, SHARDED = 160, 96, 48
_CUT = dict(tp=8, sequence_parallel=True, global_batch=1, precision="bf16-pure")
Drawn = tuple[str, dict[str, Any], int]  # preset, flags, position on the tp axis


def wanted() -> list[Drawn]:
    """Random steps of tiny models on one GPU, on a rank of 2, 4 or 8 along tp, and of 2 to 4 along
    dp, with and without ZeRO; and two models of full size."""
    one, shared, sharded = (random.Random(2013 + i) for i in range(3))
    return [
        *(("tiny", _draw(one), 0) for _ in range(ONE_GPU)),
        *(("tiny", *_shared_out(shared)) for _ in range(TENSOR_PARALLEL)),
        *(
            (preset, {"global_batch": 1, "precision": precision}, 0)
            for preset in MODELS
            for precision in ("bf16-pure", "bf16")
        ),
        *(("llama3-8b", _CUT | {"recompute": policy}, 3) for policy in ("none", "full")),
        *(("tiny", *_sharded(sharded)) for _ in range(SHARDED)),
    ]


def _draw(rng: random.Random) -> dict[str, Any]:
    """Every norm, activation, position, attention, precision, recomputation …"""
    heads, layers = rng.choice([1, 2, 4, 6]), rng.choice([1, 2, 3, 5])
    micro_batch = rng.choice([1, 2, 4])
    return dict(
        layers=layers,
        heads=heads,
        hidden=heads * rng.choice([8, 16]),
        head_dim=rng.choice([8, 16]),
        kv_heads=rng.choice(divisors(heads)),
        ffn=rng.choice([20, 80]),
        vocab=rng.choice([256, 300]),
        seq=rng.choice([32, 64]),
        norm=rng.choice(["layernorm", "rmsnorm"]),
        activation=rng.choice(["gelu", "swiglu"]),
        positions=rng.choice(["learned", "rope"]),
        attention=rng.choice(["sdpa", "sdpa", "explicit"]),
        bias=rng.random() < 0.5,
        tied=rng.random() < 0.5,
        micro_batch=micro_batch,
        global_batch=micro_batch * rng.choice([1, 1, 2]),
        precision=rng.choice(["fp32", "bf16", "bf16-pure"]),
        recompute=rng.choice(["none", "none", "selective", "full", "0", str(layers - 1)]),
        clip=rng.choice([0.0, 1.0]),
    )


def _shared_out(rng: random.Random) -> tuple[dict[str, Any], int]:
    """The same on one of tp ranks; MLP and vocabulary need not be shared out evenly."""
    tp, flags = rng.choice([2, 4, 8]), _draw(rng)
    shared, group = tp * rng.choice([1, 2]), rng.choice([1, 2])
    flags |= dict(tp=tp, heads=shared * group, kv_heads=shared, hidden=rng.choice([32, 48]))
    flags |= dict(ffn=rng.choice([83, 96]), sequence_parallel=rng.random() < 0.6)
    return flags, rng.randrange(tp)


def _sharded(rng: random.Random) -> tuple[dict[str, Any], int]:
    """The same on the first rank of dp, some of them of tp, too; shards have to be padded."""
    flags, rank = _shared_out(rng) if rng.random() < 0.3 else (_draw(rng), 0)
    dp = rng.choice([2, 3, 4])
    batch = dp * flags["global_batch"]
    return flags | dict(dp=dp, zero=rng.choice([0, 1, 2, 3, 3]), global_batch=batch), rank
