"""The ZeRO tool as data: every scene in both languages, where its numbers come from, and what solves its challenge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from lab_utils import TrainConfig
from lab_utils.estimate import estimate
from lab_utils.estimate import traffic as estimate_traffic
from lab_utils.estimate.memory import optimizers
from lab_utils.estimate.memory import terms as estimate_memory
from lab_utils.widgets import Explorer, zero_bytes, zero_costs, zero_stages, zero_traffic, zero_walk_scene
from lab_utils.widgets.controls import start_state, states
from lab_utils.widgets.table import compress, decompress, unpack
from lab_utils.widgets.units import digits, nbytes, percent
from lab_utils.widgets.zero_costs import MICRO_BATCHES, MODELS, OPTIMIZERS, PRECISIONS, RANKS, Setting
from lab_utils.widgets.zero_walk import STAGES, moments

HAN = r"[一-鿿]"
SCENES = {"walk": zero_walk_scene.scene, "bytes": zero_bytes.scene, "traffic": zero_traffic.scene}
START = {"model": "llama3-8b", "precision": "bf16-pure", "optimizer": "adamw", "ranks": 4, "micro_batches": 1, "stage": "3"}
ESTIMATES = [found for module in (estimate_memory, estimate_traffic) for found in vars(module).values() if hasattr(found, "cache_clear")]
Everything = list[tuple[str, dict, dict]]


@cache
def tool(lang: str) -> Explorer:
    return zero_stages.explorer(lang)


def every_scene(lang: str) -> Iterator[tuple[str, dict, dict]]:
    """Panel name, state, scene, from the table as the page gets it."""
    table = decompress(compress(tool(lang).table))
    by_name = {c.name: c for c in tool(lang).controls}
    for panel in tool(lang).panels:
        for state, scene in zip(states([by_name[name] for name in panel.controls]), unpack(table[panel.name]), strict=True):
            assert (state is None) == (scene is None)
            if state:
                yield panel.name, state, scene


@pytest.fixture(scope="module")
def everything() -> dict[str, Everything]:
    return {lang: list(every_scene(lang)) for lang in ("en", "zh")}


@pytest.fixture
def no_memory_of_estimates() -> Iterator[None]:
    """Nothing that was estimated before is used, nor is anything kept that is estimated now."""
    def forget() -> None:
        for cached in (*ESTIMATES, zero_costs.memory, zero_costs.traffic, zero_bytes._common, zero_traffic._common, zero_stages._fewest):
            cached.cache_clear()

    forget()
    yield
    forget()


def texts(scene: dict) -> dict[str, str]:
    return {item["key"]: item["text"] for item in scene["items"] if item["tag"] == "text"}


def report(state: dict) -> dict:
    """What `estimate` says of rank 0 of the run that a state names, straight from its flags."""
    flags = {"zero": 3, "offload": True} if state["stage"] == "offload" else {"zero": int(state["stage"])}
    config = TrainConfig.of(state["model"], dp=state["ranks"], precision=state["precision"], optimizer=state.get("optimizer", "adamw"),
                            global_batch=state["ranks"] * state["micro_batches"], micro_batch=1, **flags)  # fmt: skip
    return estimate(config).ranks[0]


def test_the_table_holds_what_the_scenes_draw(everything):
    for i, (panel, state, scene) in enumerate(everything["en"]):
        if i % 23 == 0:
            assert scene == SCENES[panel](state, "en")
    settings = len(MODELS) * len(RANKS) * len(PRECISIONS) * len(MICRO_BATCHES) * len(STAGES)
    assert len(everything["en"]) == len(RANKS) * sum(len(moments(stage)) for stage in STAGES) + settings * len(OPTIMIZERS) + settings


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_scene_has_unique_keys_and_stays_inside(everything, lang):
    sizes = {panel.name: (panel.width, panel.height) for panel in tool(lang).panels}
    for name, state, scene in everything[lang]:
        keys = [item["key"] for item in scene["items"]]
        assert len(set(keys)) == len(keys), state
        width, height = sizes[name]
        for item in scene["items"]:
            if item["tag"] == "rect":
                assert 0 <= item["x"] <= item["x"] + item["width"] <= width + 0.1, (state, item)
                assert 0 <= item["y"] <= item["y"] + item["height"] <= height, (state, item)
                assert min(item["width"], item["height"]) >= 0, (state, item)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_picture_says_its_result(everything, lang):
    for name, state, scene in everything[lang]:
        shown = texts(scene)
        expected = {
            "walk": ["said-parameters", "said-gradients", "said-optimizer"], "bytes": ["figure0", "figure1"], "traffic": ["figure0"],
        }[name]  # fmt: skip
        assert all(shown[key] in scene["alt"] for key in expected), state
        assert f"{state['ranks']:,}" in scene["alt"]
        if name == "traffic":
            assert shown["figure1"] == "1 ×" or shown["figure1"].removesuffix(" ×") in scene["alt"], state


def test_chinese_is_chinese(everything):
    wrong = re.compile(rf"{HAN}\s*[,;:()?!]|[,;:()?!]\s*{HAN}|{HAN}[A-Za-z0-9]|[A-Za-z0-9]{HAN}")
    words = {text for _, _, scene in everything["zh"]
             for text in (scene["alt"], *(item[k] for item in scene["items"] for k in ("text", "title") if k in item))}  # fmt: skip
    spec = tool("zh").spec
    words |= {spec["title"], spec["challenge"]["task"], *spec["words"].values(), *(c["label"] for c in spec["controls"])}
    words |= {text for c in spec["controls"] for options in c["words"] for text in options}
    assert not {text for text in words if wrong.search(text)}
    assert all(re.search(HAN, scene["alt"]) for _, _, scene in everything["zh"])
    assert not any(re.search(HAN, str(scene)) for _, _, scene in everything["en"])
    assert not any(re.search(HAN, str(part)) for part in (tool("en").spec, tool("en").title))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("change", [{}, {"model": "gpt2-xl", "precision": "fp32"}, {"model": "llama3-70b", "ranks": 1024, "micro_batches": 8},
                                    {"model": "tiny", "optimizer": "sgd", "ranks": 8}], ids=str)  # fmt: skip
def test_the_figures_are_the_estimators(stage, change):
    state = START | change | {"stage": stage}
    held, plain = report(state), report(state | {"stage": "0"})
    on_gpu = ("parameters", "gradients", "optimizer", "gathered", "buckets")
    total, most = (sum(rank.memory[term] for term in on_gpu) for rank in (held, plain))
    shown = texts(zero_bytes.scene(state, "en"))
    assert shown["figure0"] == shown[f"total{stage}"] == nbytes(total)
    assert shown["figure2"] == percent(total / most)
    assert shown["figure-detail2"] == f"of {nbytes(most)}"
    fitting = [size for size in (24, 80) if total <= size * 10**9]
    assert shown["figure1"].replace("\u00a0", " ") == (f"fits in {fitting[0]} GB" if fitting else "too much for 80 GB")
    for term in (*on_gpu, "offloaded"):
        assert shown[f"key-name-{term}"].split(": ")[1].removeprefix("≤ ") == nbytes(held.memory[term])
        assert shown[f"key-name-{term}"].count("≤") == (term in ("gathered", "buckets") and held.memory[term] > 0)

    shown = texts(zero_traffic.scene(state, "en"))
    assert shown["figure0"] == nbytes(held.total("wire_bytes"))
    assert shown["figure-detail1"] == f"which sends {nbytes(plain.total('wire_bytes'))}"
    assert shown["figure2"] == f"{held.total('calls'):,}"
    times = Fraction(held.total("wire_bytes"), plain.total("wire_bytes"))
    assert float(shown["figure1"].removesuffix(" ×")) == pytest.approx(float(times), rel=5e-3)
    assert (shown["figure1"] == "1 ×") == (times == 1)
    for op in ("all_reduce", "reduce_scatter", "all_gather"):
        calls = held.total("calls", op=op)
        assert (f"{calls} {op.replace('_', '-')}" in shown["figure-detail2"]) == (calls > 0)


def test_the_known_ratios_of_the_paper():
    """Rajbhandari et al. 2020, section 7: with one micro-batch stages 1 and 2 send what data parallelism sends, stage 3 half as much again."""
    for m in MICRO_BATCHES:
        setting = Setting("llama3-8b", 32, "bf16-pure", "adamw", m)
        assert [zero_traffic.ratio(setting, stage) for stage in STAGES] == [1, 1, Fraction(m + 1, 2), Fraction(3 * m, 2), Fraction(3 * m, 2)]


@pytest.mark.parametrize("state", [START, START | {"model": "tiny"}, START | {"model": "llama3-70b", "ranks": 64}], ids=lambda s: s["model"])
def test_the_bars_are_as_long_as_the_estimators_bytes(state):
    items = {item["key"]: item for item in zero_bytes.scene(state, "en")["items"]}
    length = items["bytes-line"]["x2"] - items["bytes-line"]["x1"]
    last = max(key for key in items if key.startswith("bytes-number"))
    value, unit = items[last]["text"].replace(",", "").split("\u00a0")
    per_byte = (items[last]["x"] - items["bytes-line"]["x1"]) / (float(value) * {"GB": 1e9, "MB": 1e6}[unit])
    for stage in STAGES:
        before = 0
        held = report(state | {"stage": stage}).memory
        for term in ("parameters", "gradients", "optimizer", "gathered", "buckets"):
            start, end = (min(length, x * per_byte) for x in (before, before + held[term]))
            before += held[term]
            bar = items.get(f"{stage}-{term}")
            drawn = (bar["x"] - items["bytes-line"]["x1"], bar["width"]) if bar else (start, 0)
            assert drawn == pytest.approx((start, end - start), abs=1.2), "but for the gap of one unit that parts two bars"
        assert (f"{stage}-cut" in items) == (before * per_byte > length), "a bar longer than the axis says so"
    for gigabytes in (24, 80):
        if f"gpu{gigabytes}" in items:
            assert items[f"gpu{gigabytes}"]["x1"] == pytest.approx(items["bytes-line"]["x1"] + gigabytes * 1e9 * per_byte, abs=0.1)


def test_the_bars_of_the_traffic_are_as_long_as_the_bytes():
    state = START | {"micro_batches": 2}
    items = {item["key"]: item for item in zero_traffic.scene(state, "en")["items"]}
    reports = {stage: report(state | {"stage": stage}) for stage in STAGES[:4]}
    most = max(rank.total("wire_bytes") for rank in reports.values())
    for stage, rank in reports.items():
        for op in ("all_reduce", "reduce_scatter", "all_gather"):
            width = items[f"{stage}-{op}"]["width"] + 1 if f"{stage}-{op}" in items else 0
            assert width == pytest.approx(500 * rank.total("wire_bytes", op=op) / most, abs=0.1)
    assert items["plain"]["x1"] == pytest.approx(118 + 500 * reports["0"].total("wire_bytes") / most, abs=0.1)


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch, no_memory_of_estimates):
    before = texts(zero_bytes.scene(START, "en")), texts(zero_traffic.scene(START, "en"))
    for cached in (*ESTIMATES, zero_costs.memory, zero_costs.traffic, zero_bytes._common, zero_traffic._common):
        cached.cache_clear()
    monkeypatch.setattr(optimizers, "FP32", 6)
    monkeypatch.setattr(estimate_traffic, "unit_bytes", lambda unit, config: 3 * unit.numel)
    after = texts(zero_bytes.scene(START, "en")), texts(zero_traffic.scene(START, "en"))
    assert {key for key in before[0] if before[0][key] != after[0].get(key)} >= {"figure0", "key-name-optimizer", *(f"total{s}" for s in "0123")}
    assert {key for key in before[1] if before[1][key] != after[1].get(key)} >= {"figure0", "figure1", "ratio3"}


def test_the_challenge_has_the_solutions_that_it_was_made_for(everything):
    met = zero_stages.met
    solved = [tuple(state[name] for name in Setting._fields) + (state["stage"],) for name, state, _ in everything["en"] if name == "bytes" and met(state)]
    assert sorted(solved) == [
        ("llama3-70b", 16, "bf16-pure", "adamw", 1, "3"), ("llama3-70b", 16, "bf16-pure", "adamw", 2, "3"), ("llama3-70b", 16, "bf16-pure", "adamw", 8, "3"),
        ("llama3-8b", 32, "bf16-pure", "adamw", 1, "2"),
    ]  # fmt: skip


def test_the_first_task_cannot_be_solved_with_fewer_ranks_and_each_condition_counts():
    frugal = [(ranks, precision, m, stage) for ranks, precision, m, stage in product(RANKS, PRECISIONS, MICRO_BATCHES, STAGES)
              for rank in [report(START | {"ranks": ranks, "precision": precision, "micro_batches": m, "stage": stage})]
              if sum(rank.memory[t] for t in ("parameters", "gradients", "optimizer", "gathered", "buckets")) <= 24e9]  # fmt: skip
    assert {stage for ranks, *_, stage in frugal if ranks == min(RANKS)} == {"offload"}, "it fits with fewer ranks, at the price of traffic"
    assert {(stage, m) for ranks, _, m, stage in frugal if ranks < 32} == {("3", m) for m in MICRO_BATCHES} | {("offload", m) for m in MICRO_BATCHES}
    assert {stage for *_, stage in frugal} == {"2", "3", "offload"}
    start = start_state(tool("en").controls)
    assert not zero_stages.met(start)
    for control in tool("en").controls:
        if control.name != "moment":
            assert not any(zero_stages.met(start | {control.name: value}) for value, _ in control.options), f"{control.name} alone solves it"


def test_a_ratio_that_is_nearly_one_is_not_called_one():
    assert zero_traffic._times(Setting("tiny", 1024, "fp32", "adamw", 1), "1") != "1 ×" == zero_traffic._times(Setting("tiny", 4, "fp32", "adamw", 1), "1")
    assert digits(1.0) == "1.00"
