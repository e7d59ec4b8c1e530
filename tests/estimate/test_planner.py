"""The planner: against all layouts one by one, against what experts ran, and what it answers where
nothing fits."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace
from itertools import product

import pytest
from published_plans import ROWS, standing

from lab_utils import i18n
from lab_utils.config import ConfigError, ModelConfig, TrainConfig
from lab_utils.config.presets import PRESETS
from lab_utils.estimate.hardware import HARDWARE, cluster
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.memory.fast.closed_form import rank_memory
from lab_utils.estimate.plan.needs import least_bytes, needed_bytes
from lab_utils.estimate.plan.planner import RESERVED_BYTES, neighbours, plan
from lab_utils.estimate.plan.search import Search
from lab_utils.estimate.time.frameworks import MEGATRON_CORE, OURS
from lab_utils.estimate.time.step import RESOURCES, step_time
from lab_utils.layout.refusals import refuse_layout

HAN = re.compile(r"[\u4e00-\u9fff]")
A100 = cluster("A100-80")


def model(name: str, **changes) -> ModelConfig:
    return ModelConfig(**PRESETS[name] | changes)


def test_the_first_is_the_fastest_and_all_fit():
    plans = plan(model("llama3-8b"), A100, 64, 256, top=None, micro_batch=2, zero=1)
    assert plans[0].why == ""
    assert [p.seconds for p in plans] == sorted(p.seconds for p in plans)
    assert len({p.config for p in plans}) == len(plans) > 50
    for p in plans[:: len(plans) // 20]:
        refuse_layout(p.config)
        assert p.config.parallel.world_size == 64
        assert p.memory_bytes <= 80e9 - RESERVED_BYTES
        assert p.bottleneck in RESOURCES
        assert p.seconds == pytest.approx(step_time(p.config, A100).step, rel=0.1)
    assert all(p.why for p in plans[1:])
    for p in plan(model("llama3-8b"), A100, 64, 256, top=5):
        assert p.seconds == pytest.approx(step_time(p.config, A100).step)


def test_no_layout_one_change_away_is_faster():
    best = plan(model("llama3-70b"), cluster("H100-SXM"), 256, 512, top=1)[0]
    around = neighbours(best)
    assert len(around) >= 8
    assert not [words for _, words in around if "faster" in words]
    assert any("does not fit" in words for _, words in around)


def test_405b_on_16384_gpus_takes_seconds():
    began = time.process_time()  # of this process alone: others may be at work
    plans = plan(model("llama3.1-405b"), cluster("H100-SXM"), 16384, 2048)
    assert time.process_time() - began <= 10  # 0.4 s on an idle machine
    best = plans[0].config.parallel
    # as Grattafiori et al. 2024, table 4 (tp 8, pp 16, dp 128): whole nodes, deep pipeline
    assert best.tp == 8
    assert best.pp >= 4
    assert plans[0].time.mfu < 0.6


def test_long_sequences_are_cut_over_cp_as_those_who_ran_them_did():
    """Grattafiori et al. 2024, table 4, the second stage of 405B: sequences of 131,072 tokens, 128
    of them, on 16,384 GPUs: tp 8, cp 16, pp 16, dp 8."""
    question = model("llama3.1-405b", seq=131_072), cluster("H100-SXM"), 16384, 128
    best = plan(*question, top=1, zero=1, pp=16)[0]
    p = best.config.parallel
    assert (p.tp, p.cp, p.pp, p.dp) == (8, 16, 16, 8)
    assert best.seconds <= 1.06 * plan(*question, top=1)[0].seconds
    # whole sequences: 128 of them for as many data ranks, so that no pipeline is ever full
    assert plan(*question, top=1, cp=1)[0].seconds > 2 * best.seconds


def test_short_sequences_are_cut_when_asked_for_only():
    usual = plan(model("llama3-8b"), cluster("H100-SXM"), 64, 256, top=20)
    assert {one.config.parallel.cp for one in usual} == {1}
    cut = plan(model("llama3-8b"), cluster("H100-SXM"), 64, 256, top=20, cp=2)
    assert {one.config.parallel.cp for one in cut} == {2}
    assert {one.config.parallel.cp_kind for one in cut} == {"ring", "all-to-all"}


@pytest.mark.parametrize("name", ROWS)
def test_published_layouts_fit_and_are_not_far_from_the_best(name):
    one = standing(name)
    assert one.held <= one.room
    assert 1 - 1e-6 <= one.regret <= 1.5
    if one.row.size in ("1.7B", "310B", "530B", "1T", "119B", "177B", "314B", "462B"):
        assert one.regret <= 1.06


def test_314b_does_not_fit_without_zero():
    one = next(standing(name) for name, row in ROWS.items() if row.size == "314B")
    config, with_zero = one.row.config, one.held
    without = needed_bytes(config.replace(zero=0), MEGATRON_CORE)
    assert with_zero < 80e9 - RESERVED_BYTES < without


def _sampled(search: Search, count: int, rng: random.Random) -> list[TrainConfig]:
    configs = [config for group in search.configs() for config in group if config.parallel.pp < 8]
    return rng.sample(configs, count)


def test_what_a_plan_needs_is_the_fullest_ranks_peak_to_the_byte():
    """Of 80 layouts that the planner looks at, 20 of them with sequences cut over cp; and the quick
    look never rules out one that fits."""
    shape, rng = model("llama3-8b", layers=9, seq=2048), random.Random(3)
    search = Search(shape, A100, 48, 96, "bf16-pure", "adamw", OURS, {})
    long = replace(search, model=replace(shape, seq=8192), pins=dict(cp=4))
    for config in _sampled(search, 60, rng) + _sampled(long, 20, rng):
        p = config.parallel
        peaks = [
            rank_memory(
                config, pp, tp, model_state_bytes(config, pp, tp)["optimizer"], cp_rank=cp
            ).peak
            for pp, tp, cp in product(range(p.pp), range(p.tp), range(p.cp))
        ]
        assert needed_bytes(config) == max(peaks), config
        assert least_bytes(config) <= max(peaks), config


# -- questions without an answer -------------------------------------------------------------------


REFUSED = {
    "one node is too small": (dict(model="llama3-70b", gpus=8, batch=64), "nothing fits on 8 GPUs"),
    "without ZeRO": (dict(model="llama3-70b", gpus=64, batch=64, zero=0, tp=1, pp=1), "--zero"),
    "without recomputation": (
        dict(model="llama3-8b", gpus=8, batch=8, seq=16384, recompute="none", tp=1, pp=1),
        "--recompute",
    ),
    "tp over the node": (dict(model="llama3-70b", gpus=64, batch=64, tp=16), "use --tp 8"),
    "heads": (dict(model="gpt2", gpus=8, batch=8, tp=8), "use --tp"),
    "not a multiple": (dict(model="gpt2", gpus=9, batch=9, tp=4), "use --gpus 8"),
    "batch": (dict(model="gpt2", gpus=7, batch=5, pp=1, tp=1), "use --global-batch 7"),
    "cp": (dict(model="llama3-8b", gpus=6, batch=6, tp=1, pp=1, cp=3), "use --seq"),
    "cp and GPUs": (dict(model="llama3-8b", gpus=12, batch=12, cp=8), "use --gpus 8"),
    "no GPUs": (dict(model="gpt2", gpus=0, batch=8), "from 1 up"),
}


def _ask(question: dict):
    question = dict(question)
    shape = {name: question.pop(name) for name in ("seq",) if name in question}
    return plan(
        model(question.pop("model"), **shape),
        A100,
        question.pop("gpus"),
        question.pop("batch"),
        **question,
    )


@pytest.mark.parametrize("name", REFUSED)
def test_a_question_without_an_answer_gets_one_sentence_and_what_works(name, monkeypatch):
    question, says = REFUSED[name]
    monkeypatch.setattr(i18n, "_chosen", "en")
    with pytest.raises(ConfigError) as english:
        _ask(question)
    assert says in str(english.value)
    assert "\n" not in str(english.value)
    monkeypatch.setattr(i18n, "_chosen", "zh")
    with pytest.raises(ConfigError) as chinese:
        _ask(question)
    assert HAN.search(str(chinese.value))
    works = dict(question)
    # and it does
    for flag, value in re.findall(r"(?:use|;) --([a-z-]+) (\w+)", str(english.value)):
        works["batch" if flag == "global-batch" else flag.replace("-", "_")] = (
            int(value) if value.isdecimal() else value
        )
    if enough := re.search(r"([\d,]+) GPUs are enough", str(english.value)):
        works["gpus"] = int(enough[1].replace(",", ""))
    if name != "no GPUs":
        assert _ask(works)


def test_a_pinned_flag_stays():
    plans = plan(model("llama3-8b"), A100, 16, 16, top=None, tp=4, zero=1)
    assert {(p.config.parallel.tp, p.config.parallel.zero) for p in plans} == {(4, 1)}


def test_every_gpu_of_the_table_can_be_asked():
    for name in HARDWARE:
        assert plan(model("gpt2"), cluster(name), 2, 4, top=1)[0].seconds > 0
