"""muP's learning rates: which parameters have which, in every layout, with the states' bytes. About
10 s."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig, estimate, launch, train
from lab_utils.config import ConfigError
from lab_utils.config.lr_schedule import rate_scale
from lab_utils.model import GPT

WIDE = TrainConfig.of("tiny", layers=2, hidden=128, heads=8, ffn=512, global_batch=8, steps=5)


def test_mup_lowers_the_rate_of_what_grows():
    config = WIDE.replace(init="mup")
    scales = {name: rate_scale(name, config) for name, _ in GPT(config.model).named_parameters()}
    assert {name for name, scale in scales.items() if scale == 0.5} == {
        name
        for name in scales
        if name.endswith("weight") and "norm" not in name and "embedding" not in name
    }
    assert set(scales.values()) == {0.5, 1.0}
    assert {rate_scale(name, WIDE) for name in scales} == {1.0}


@pytest.mark.parametrize(
    "flags", [dict(dp=2, zero=1), dict(dp=2, zero=3), dict(tp=2), dict(pp=2)], ids=str
)
def test_every_layout_starts_and_trains_alike(flags):
    config = WIDE.replace(init="mup", optimizer="lion" if "tp" in flags else "adamw")
    run, one = train(config.replace(**flags), threads=1), train(config, threads=1)
    assert run.loss == pytest.approx(one.loss, rel=1e-6)
    estimated = estimate(config.replace(**flags))
    assert [r.memory["optimizer"] for r in estimated.ranks] == [
        r.memory["optimizer"] for r in run.ranks
    ]


def rates_used(config: TrainConfig) -> dict[str, float]:
    """How far the first step moves each matrix, in units of --lr: Adam's first step is ±rate."""
    from lab_utils.engines.ours import engine_here

    engine, loader = engine_here(config)
    before = {f.place.name: f.values.copy() for f in engine.weight_fragments()}
    engine.forward_backward(loader.batch(0))
    engine.update()
    return {
        f.place.name: float(abs(f.values - before[f.place.name]).max() / config.lr)
        for f in engine.weight_fragments()
    }


def test_the_first_step_is_as_large_as_the_rule_says():
    (moved,) = launch(rates_used, 1, WIDE.replace(init="mup"), threads=1)
    assert moved["token_embedding.weight"] == pytest.approx(1.0, rel=0.01)
    assert moved["blocks.0.attention_norm.weight"] == pytest.approx(1.0, rel=0.01)
    assert moved["blocks.1.mlp.up.weight"] == pytest.approx(0.5, rel=0.01)
    assert moved["head.weight"] == pytest.approx(0.5, rel=0.01)


def test_what_contradicts_mup_is_refused():
    for flags, said in (
        (dict(tied=True), "use --no-tied"),
        (dict(optimizer="muon"), "use --optimizer adamw"),
        (dict(optimizer="sgd"), "use --optimizer adamw"),
    ):
        with pytest.raises(ConfigError, match=said):
            WIDE.replace(init="mup", **flags)
    with pytest.raises(ConfigError, match="or --engine ours"):
        train(WIDE.replace(init="mup", dp=2), engine="torch")
