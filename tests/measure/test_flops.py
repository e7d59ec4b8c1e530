"""FLOPs that were counted on the operations that ran, against the estimate's ledger and a sum by
hand."""

from __future__ import annotations

import random

from lab_utils import TrainConfig, estimate, launch, train
from lab_utils.config import divisors


def random_config(seed: int) -> TrainConfig:
    rng = random.Random(seed)
    heads = rng.choice([1, 2, 3, 4, 6])
    return TrainConfig.of(
        "tiny",
        layers=rng.choice([1, 2]),
        heads=heads,
        hidden=heads * rng.choice([4, 8]),
        head_dim=rng.choice([None, 6]),
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
    )


def flops_on_rank(configs: list[TrainConfig]) -> list[dict[str, int]]:
    from lab_utils.train.loop import run_rank

    return [run_rank(config, "ours", keep_gradients=False).flops for config in configs]


def test_measured_equals_estimated_for_any_shape():
    configs = [random_config(seed) for seed in range(30)]
    kinds = {(c.model.attention, c.model.kv_heads == c.model.heads) for c in configs}
    assert len(kinds) == 4  # fused and written out, grouped and not, all occur
    (measured,) = launch(flops_on_rank, 1, configs, threads=1)
    for config, flops in zip(configs, measured, strict=True):
        expected = estimate(config).flops
        assert flops == {k: expected[k] for k in ("model", "hardware", "update")}, config.model
        assert flops["hardware"] > flops["model"] or config.model.attention == "explicit"


def test_a_sum_by_hand():
    """One layer, hidden 8, one head, MLP 32, vocabulary 256, 2 sequences of 4: 6 FLOPs per weight
    and token, attention apart."""
    config = TrainConfig.of(
        "tiny",
        layers=1,
        hidden=8,
        heads=1,
        ffn=32,
        vocab=256,
        seq=4,
        global_batch=2,
        attention="explicit",
    )
    tokens, weights = 2 * 4, 4 * 8 * 8 + 2 * 8 * 32 + 256 * 8
    attention = 6 * 2 * tokens * 4 * 8  # QKᵀ and the values, forward and twice backward
    assert estimate(config).flops["model"] == 6 * tokens * weights + attention


def test_the_whole_job_does_the_same_work_on_any_number_of_ranks():
    config = TrainConfig.of("tiny", layers=1, steps=2, micro_batch=4)
    flops = [
        train(config.replace(dp=dp), threads=1, engine=engine).flops
        for dp, engine in ((1, "ours"), (2, "ours"), (3, "ours"), (2, "torch"))
    ]
    assert flops[0]["model"] == estimate(config).flops["model"]
    assert all(f == flops[0] for f in flops)
