"""A step on tensors without memory: equal to the real run where that fits, and to the estimate
where it does not. About 60 s."""

from __future__ import annotations

import resource
import time
from typing import Any

import pytest

from lab_utils import TrainConfig, estimate, i18n, launch
from lab_utils.config import ConfigError
from lab_utils.train.fake import fake_step

TERMS = ("parameters", "gradients", "optimizer", "activations", "weight_copies", "peak", "at_peak")
LLAMA = dict(norm="rmsnorm", activation="swiglu", positions="rope", bias=False, kv_heads=2)
FLAGS = [
    {},
    {"precision": "bf16", "recompute": "full", "clip": 1.0},
    {"precision": "bf16-pure", "micro_batch": 1},
    {**LLAMA, "recompute": "selective", "micro_batch": 2},
    {**LLAMA, "attention": "explicit", "precision": "bf16", "tied": True},
    {
        "attention": "explicit",
        "recompute": "1",
        "optimizer": "sgd",
        "schedule": "gpipe",
        "micro_batch": 2,
    },
]
SMALL = [TrainConfig.of("tiny", layers=2, global_batch=4, steps=2, **flags) for flags in FLAGS]
BIG = [
    ("llama3-8b", {"precision": "bf16", "recompute": "full"}),
    ("llama3-70b", {"precision": "bf16-pure", "recompute": "full"}),
]


def real_memory(configs: list[TrainConfig]) -> list[dict[str, Any]]:
    from lab_utils.train.loop import run_rank

    return [
        dict(run_rank(config, "ours", keep_gradients=False).report.memory) for config in configs
    ]


def test_the_same_as_the_real_run():
    for config, real in zip(SMALL, launch(real_memory, 1, SMALL, threads=1)[0], strict=True):
        fake = fake_step(config)
        assert {term: fake[term] for term in TERMS} == {term: real[term] for term in TERMS}, config


@pytest.mark.parametrize(("preset", "flags"), BIG)
def test_models_that_do_not_fit_here(preset, flags):
    config = TrainConfig.of(preset, global_batch=1, **flags)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    fake = fake_step(config)
    seconds, grown = (
        time.perf_counter() - began,
        (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20,
    )
    expected = estimate(config).ranks[0].memory
    print(
        f"{preset}, {config.model.seq} tokens: peak {fake['peak'] / 1e9:.1f} GB in {seconds:.0f} s,"
        f" {grown:.2f} GiB of memory more"
    )
    assert {term: fake[term] for term in TERMS[:-1]} == {
        term: expected[term] for term in TERMS[:-1]
    }
    assert grown < 1


def test_one_process_only(monkeypatch):
    monkeypatch.setattr(i18n, "_chosen", "zh")
    with pytest.raises(ConfigError, match="单进程"):
        fake_step(TrainConfig.of("tiny", dp=2))
