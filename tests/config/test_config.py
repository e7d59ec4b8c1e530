"""Configurations refuse what cannot run, in both languages, with what would work; what they accept
survives a round trip."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab_utils import i18n
from lab_utils.config import ConfigError, TrainConfig, divisors, flag_fields

HAN = re.compile(r"[\u4e00-\u9fff]")

REFUSED = [  # flags, what the sentence must offer in English, in Chinese
    ({"heads": 5}, "4, 8", "4, 8"),
    ({"heads": 4, "kv_heads": 3}, "2, 4", "2, 4"),
    ({"kv_heads": 0}, "from 1 up", "不小于 1"),
    ({"ffn": -1}, "from 1 up", "不小于 1"),
    ({"head_dim": "8"}, "from 1 up", "不小于 1"),
    ({"hidden": 12, "heads": 4, "positions": "rope"}, "must be even", "必须是偶数"),
    ({"layers": 0}, "from 1 up", "不小于 1"),
    ({"layers": True}, "from 1 up", "不小于 1"),
    ({"seq": 2.5}, "from 1 up", "不小于 1"),
    ({"norm": "batchnorm"}, "layernorm, rmsnorm", "layernorm、rmsnorm"),
    ({"gradient_sync": "none"}, "bucketed, naive", "bucketed、naive"),
    ({"dp": 0}, "from 1 up", "不小于 1"),
    ({"zero": 4}, "0, 1, 2 or 3", "0、1、2 或 3"),
    ({"zero": "1"}, "0, 1, 2 or 3", "0、1、2 或 3"),
    ({"bucket_mib": 0}, "above 0", "大于 0"),
    ({"bucket_mib": float("inf")}, "above 0", "大于 0"),
    ({"bucket_mib": "big"}, "above 0", "大于 0"),
    ({"dp": 5}, "4, 6", "4, 6"),
    ({"dp": 48}, "24", "24"),
    ({"micro_batch": 5}, "4, 6", "4, 6"),
    ({"micro_batch": 0}, "1", "1"),
    ({"micro_batch": -3}, "1", "1"),
    ({"micro_batch": 2.0}, "from 1 up", "不小于 1"),
    ({"dp": 2, "micro_batch": 24}, "12", "12"),
    ({"lr": 0}, "above 0", "大于 0"),
    ({"lr": float("nan")}, "above 0", "大于 0"),
    ({"lr": "fast"}, "above 0", "大于 0"),
    ({"clip": -1}, "0 (off) or above", "不小于 0"),
    ({"clip": float("nan")}, "0 (off) or above", "不小于 0"),
    ({"recompute": "some"}, "none, selective, full", "none、selective、full"),
    ({"recompute": "0,4"}, "below 4", "小于 4"),
    ({"recompute": "0,,1"}, "below 4", "小于 4"),
    ({"recompute": "²"}, "below 4", "小于 4"),
    ({"optimizer": "adamax"}, "sgd, adamw", "sgd、adamw"),
    ({"weight_decay": -0.1}, "0 (off) or above", "不小于 0"),
    ({"weight_decay": 1000.0}, "times --lr below 1", "乘积小于 1"),
    ({"lr_end": 1.5}, "a share of --lr from 0 to 1", "0 到 1 之间"),
    ({"lr_schedule": "one-cycle", "warmup": 5}, "leave out --warmup", "请去掉 --warmup"),
    ({"lr_schedule": "step"}, "constant, linear, cosine", "constant、linear"),
    ({"steps": 0}, "from 1 up", "不小于 1"),
    ({"seed": -1}, "from 0 up", "不小于 0"),
    ({"layer": 2}, "layers", "layers"),
    ({"preset": "gpt5"}, "gpt2", "gpt2"),
]


@pytest.mark.parametrize(("flags", "en", "zh"), REFUSED, ids=[str(r[0]) for r in REFUSED])
def test_what_cannot_run_is_refused_with_what_would(flags, en, zh, monkeypatch):
    for lang, offer in (("en", en), ("zh", zh)):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ConfigError) as refusal:
            TrainConfig.of(**flags)
        sentence = str(refusal.value)
        assert offer in sentence
        assert "\n" not in sentence
        assert bool(HAN.search(sentence)) == (lang == "zh")
        assert (
            any(str(value) in sentence or name in sentence for name, value in flags.items())
            or "--head-dim" in sentence
        )


@st.composite
def configs(draw) -> TrainConfig:
    heads, dp = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    share = draw(st.integers(1, 24))
    return TrainConfig.of(
        layers=draw(st.integers(1, 5)),
        heads=heads,
        hidden=2 * heads * draw(st.integers(1, 9)),
        kv_heads=draw(st.sampled_from(divisors(heads))),
        head_dim=draw(st.sampled_from([None, 2, 6])),
        ffn=draw(st.none() | st.integers(1, 99)),
        positions=draw(st.sampled_from(["learned", "rope"])),
        activation=draw(st.sampled_from(["gelu", "swiglu"])),
        tied=draw(st.booleans()),
        bias=draw(st.booleans()),
        dp=dp,
        global_batch=dp * share,
        micro_batch=draw(st.none() | st.sampled_from(divisors(share))),
        lr=draw(st.none() | st.floats(1e-9, 10)),
        bucket_mib=draw(st.floats(1e-6, 100)),
        optimizer=draw(st.sampled_from(["sgd", "adamw"])),
        seed=draw(st.integers(0, 2**40)),
    )


@settings(deadline=None)
@given(configs())
def test_flags_survive_a_round_trip_through_json(config):
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert TrainConfig.from_dict(config.to_dict() | {"a_flag_of_a_later_version": 1}) == config
    assert config.replace() == config
    assert set(config.to_dict()) == set(flag_fields())
    assert config.micro_batches * config.micro_batch * config.parallel.dp == config.global_batch


def test_replace_keeps_the_usual_usual_and_the_chosen_chosen():
    config = TrainConfig.of("tiny", global_batch=24)
    assert config.replace(dp=4).micro_batch == 6
    assert config.replace(micro_batch=3).replace(dp=4).micro_batch == 3
    wide = config.replace(hidden=128).model
    assert (wide.head_dim, wide.ffn) == (32, 512)
    assert config.replace(heads=8).model.kv_heads == 8
    assert config.replace(kv_heads=2).replace(hidden=128).model.kv_heads == 2
    # 8/3 of 64 is 170.7, the next multiple of 8
    assert config.replace(activation="swiglu").model.ffn == 176
    assert config.replace(optimizer="sgd").lr == 0.1
    assert config.replace(lr=0.5).replace(optimizer="adamw", steps=3).lr == 0.5
    assert config.replace(lr=0.5).replace(optimizer="sgd").lr == 0.1
    assert config.replace(optimizer="sgd", lr=0.5).lr == 0.5


def test_layers_to_recompute():
    assert TrainConfig.of(recompute="2,0, 2").recomputed_layers() == [0, 2]
    assert TrainConfig.of(recompute="full").recomputed_layers() == [0, 1, 2, 3]
    assert (
        TrainConfig.of().recomputed_layers()
        == TrainConfig.of(recompute="selective").recomputed_layers()
        == []
    )


@given(st.integers(1, 5000))
def test_divisors(n):
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]
