"""What is not carried out is refused before a process starts, by `train` and by `estimate`, with
what does work."""

from __future__ import annotations

import shlex

import pytest

from lab_utils import TrainConfig, estimate, i18n, train
from lab_utils.config import ConfigError
from lab_utils.layout.refusals import refuse_what_cannot_run

# flags of a tiny model (4 layers, 4 heads, 64 tokens, batch 24) → what the sentence names, flags
# that it offers
REFUSED = [
    (
        {"zero": 2, "dp": 2, "gradient_sync": "naive"},
        "--gradient-sync naive",
        {"gradient_sync": "bucketed"},
    ),
    ({"offload": True, "dp": 2}, "--zero 1", {"zero": 1}),
    ({"zero": 2, "dp": 2, "pp": 2, "schedule": "zero-bubble"}, "--zero 1", {"zero": 1}),
    (
        {"zero": 3, "dp": 2, "pp": 2, "schedule": "zero-bubble"},
        "--schedule 1f1b",
        {"schedule": "1f1b"},
    ),
    ({"tp": 8}, "--tp 4", {"tp": 4}),
    ({"tp": 4, "kv_heads": 2}, "--tp 2", {"tp": 2}),
    ({"tp": 4, "ffn": 3}, "--tp 3", {"tp": 3}),
    ({"tp": 3, "sequence_parallel": True}, "--tp 2", {"tp": 2}),
    ({"tp": 3, "sequence_parallel": True}, "--seq 63", {"seq": 63}),
    ({"pp": 8}, "--pp 4", {"pp": 4}),
    (
        {"pp": 4, "schedule": "interleaved", "virtual_stages": 2, "micro_batch": 1},
        "--pp 2",
        {"pp": 2},
    ),
    ({"schedule": "interleaved"}, "--pp 2", {"pp": 2, "virtual_stages": 2, "micro_batch": 12}),
    (
        {"pp": 2, "schedule": "interleaved"},
        "--virtual-stages 2",
        {"virtual_stages": 2, "micro_batch": 12},
    ),
    (
        {"pp": 2, "virtual_stages": 2},
        "--schedule interleaved",
        {"schedule": "interleaved", "micro_batch": 12},
    ),
    ({"schedule": "zero-bubble"}, "--schedule 1f1b", {"schedule": "1f1b"}),
    (
        {"pp": 2, "schedule": "interleaved", "virtual_stages": 2, "micro_batch": 8},
        "--micro-batch 6",
        {"micro_batch": 6},
    ),
    (
        {"pp": 2, "schedule": "interleaved", "virtual_stages": 2, "global_batch": 5},
        "--global-batch 6 ",
        {"global_batch": 6, "micro_batch": 1},
    ),
]


@pytest.mark.parametrize(
    ("flags", "offered", "change"),
    REFUSED,
    ids=[shlex.join(map(str, flags)) + str(i) for i, (flags, _, _) in enumerate(REFUSED)],
)
def test_the_sentence_names_what_works_and_it_works(flags, offered, change, monkeypatch):
    config = TrainConfig.of("tiny", **flags)
    sentences = {}
    for lang in ("en", "zh"):
        monkeypatch.setattr(i18n, "_chosen", lang)
        for verb in (train, estimate):
            with pytest.raises(ConfigError) as refusal:
                verb(config)
            sentences[lang, verb] = str(refusal.value)
            assert offered.strip() in sentences[lang, verb]
            assert "\n" not in sentences[lang, verb]
    assert sentences["en", train] == sentences["en", estimate] != sentences["zh", train]
    refuse_what_cannot_run(TrainConfig.of("tiny", **flags | change))


@pytest.mark.parametrize("engine", ["torch", "deepspeed"])
def test_optimizers_that_only_ours_runs(engine):
    with pytest.raises(ConfigError, match="--engine ours for lion"):
        train(TrainConfig.of("tiny", optimizer="lion", dp=2), engine=engine)
    with pytest.raises(ConfigError, match="leave out --weight-decay"):
        train(TrainConfig.of("tiny", weight_decay=0.1, dp=2), engine=engine)


def test_muon_is_not_offloaded():
    with pytest.raises(ConfigError, match="leave out --offload"):
        train(TrainConfig.of("tiny", optimizer="muon", dp=2, zero=1, offload=True))


def test_torch_has_no_naive_way():
    with pytest.raises(ConfigError, match="always sends buckets"):
        train(TrainConfig.of("tiny", dp=2, gradient_sync="naive"), engine="torch")


def test_engines():
    refuse_what_cannot_run(TrainConfig.of("tiny", dp=4), "torch")
    with pytest.raises(ConfigError, match="choose ours, torch"):
        train(TrainConfig.of("tiny"), engine="megatron")


@pytest.mark.parametrize(
    "flags", [{"zero": 3}, {"sequence_parallel": True}, {"zero": 2, "offload": True}], ids=str
)
def test_strategies_on_an_axis_of_one_rank_are_the_identity(flags):
    config = TrainConfig.of("tiny", layers=1, steps=2, **flags)
    alone = train(config.replace(zero=0, sequence_parallel=False, offload=False), threads=1)
    assert train(config, threads=1).loss == pytest.approx(alone.loss, rel=1e-6)
