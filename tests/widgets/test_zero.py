"""The ZeRO tool as data: every scene in both languages, where its numbers come from, and what
solves its challenge."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import product

import pytest

from lab_utils import TrainConfig
from lab_utils.estimate import estimate, update
from lab_utils.estimate import traffic as estimate_traffic
from lab_utils.estimate.memory import terms as estimate_memory
from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.frame.units import digits, nbytes, percent
from lab_utils.widgets.zero import costs as zero_costs
from lab_utils.widgets.zero import held as zero_bytes
from lab_utils.widgets.zero import tool as zero_stages
from lab_utils.widgets.zero import traffic as zero_traffic
from lab_utils.widgets.zero.costs import MICRO_BATCHES, Setting
from lab_utils.widgets.zero.walk import STAGES

START = {
    "model": "llama3-8b",
    "precision": "bf16-pure",
    "optimizer": "adamw",
    "ranks": 4,
    "micro_batches": 1,
    "stage": "3",
}
ESTIMATES = [
    found
    for module in (estimate_memory, estimate_traffic)
    for found in vars(module).values()
    if hasattr(found, "cache_clear")
]


@cache
def tool(lang: str) -> Explorer:
    return zero_stages.explorer(lang)


@pytest.fixture
def no_memory_of_estimates() -> Iterator[None]:
    """Nothing that was estimated before is used, nor is anything kept that is estimated now."""

    def forget() -> None:
        for cached in (
            *ESTIMATES,
            zero_costs.memory,
            zero_costs.traffic,
            zero_bytes._common,
            zero_traffic._common,
        ):
            cached.cache_clear()

    forget()
    yield
    forget()


def texts(scene: dict) -> dict[str, str]:
    return {item["key"]: item["text"] for item in scene["items"] if item["tag"] == "text"}


def report(state: dict) -> dict:
    """What `estimate` says of rank 0 of the run that a state names, straight from its flags."""
    flags = (
        {"zero": 3, "offload": True}
        if state["stage"] == "offload"
        else {"zero": int(state["stage"])}
    )
    config = TrainConfig.of(
        state["model"],
        dp=state["ranks"],
        precision=state["precision"],
        optimizer=state.get("optimizer", "adamw"),
        global_batch=state["ranks"] * state["micro_batches"],
        micro_batch=1,
        **flags,
    )
    return estimate(config).ranks[0]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_picture_says_its_result(lang):
    by_name = {c.name: c for c in tool(lang).controls}
    drawn = [
        (panel.name, state, tool(lang).scene(panel, state))
        for panel in tool(lang).panels
        for state in list(states([by_name[name] for name in panel.controls]))[::7]
        if state
    ]
    for name, state, scene in drawn:
        shown = texts(scene)
        expected = {
            "walk": ["said-parameters", "said-gradients", "said-optimizer"],
            "bytes": ["figure0", "figure1"],
            "traffic": ["figure0"],
        }[name]
        assert all(shown[key] in scene["alt"] for key in expected), state
        assert f"{state['ranks']:,}" in scene["alt"]
        if name == "traffic":
            assert (
                shown["figure1"] == "1 ×" or shown["figure1"].removesuffix(" ×") in scene["alt"]
            ), state


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"model": "gpt2-xl", "precision": "fp32"},
        {"model": "llama3-70b", "ranks": 1024, "micro_batches": 8},
        {"model": "tiny", "optimizer": "sgd", "ranks": 8},
    ],
    ids=str,
)
def test_the_figures_are_the_estimators(stage, change):
    state = START | change | {"stage": stage}
    held, plain = report(state), report(state | {"stage": "0"})
    on_gpu = ("parameters", "gradients", "optimizer", "gathered", "buckets")
    total, most = (sum(rank.memory[term] for term in on_gpu) for rank in (held, plain))
    shown = texts(zero_bytes.scene(state, "en"))
    assert shown["figure0"] == shown[f"total{stage}"] == nbytes(total)
    assert shown["figure2"] == percent(total / most)
    assert shown["figure-detail2"] == f"of {nbytes(most)}"
    fitting = [size for size in (24, 40, 80) if total <= size * 10**9]
    assert shown["figure1"].replace("\u00a0", " ") == (
        f"fits in {fitting[0]} GB" if fitting else "too much for 80 GB"
    )
    for term in (*on_gpu, "offloaded"):
        assert shown[f"key-name-{term}"].split(": ")[1].removeprefix("≤ ") == nbytes(
            held.memory[term]
        )
        assert shown[f"key-name-{term}"].count("≤") == (
            term in ("gathered", "buckets") and held.memory[term] > 0
        )

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
    """Rajbhandari et al. 2020, section 7: with one micro-batch stages 1 and 2 send what data
    parallelism sends, stage 3 half as much again."""
    for m in MICRO_BATCHES:
        setting = Setting("llama3-8b", 32, "bf16-pure", "adamw", m)
        assert [zero_traffic.ratio(setting, stage) for stage in STAGES] == [
            1,
            1,
            Fraction(m + 1, 2),
            Fraction(3 * m, 2),
            Fraction(3 * m, 2),
        ]


@pytest.mark.parametrize(
    "state",
    [START, START | {"model": "tiny"}, START | {"model": "llama3-70b", "ranks": 64}],
    ids=lambda s: s["model"],
)
def test_the_bars_are_as_long_as_the_estimators_bytes(state):
    items = {item["key"]: item for item in zero_bytes.scene(state, "en")["items"]}
    length = items["bytes-line"]["x2"] - items["bytes-line"]["x1"]
    last = max(key for key in items if key.startswith("bytes-number"))
    value, unit = items[last]["text"].replace(",", "").split("\u00a0")
    per_byte = (items[last]["x"] - items["bytes-line"]["x1"]) / (
        float(value) * {"GB": 1e9, "MB": 1e6}[unit]
    )
    for stage in STAGES:
        before = 0
        held = report(state | {"stage": stage}).memory
        for term in ("parameters", "gradients", "optimizer", "gathered", "buckets"):
            start, end = (min(length, x * per_byte) for x in (before, before + held[term]))
            before += held[term]
            bar = items.get(f"{stage}-{term}")
            drawn = (bar["x"] - items["bytes-line"]["x1"], bar["width"]) if bar else (start, 0)
            assert drawn == pytest.approx((start, end - start), abs=1.2), (
                "but for the gap of one unit that parts two bars"
            )
        assert (f"{stage}-cut" in items) == (before * per_byte > length), (
            "a bar longer than the axis says so"
        )
    for gigabytes in (24, 40, 80):
        if f"gpu{gigabytes}" in items:
            assert items[f"gpu{gigabytes}"]["x1"] == pytest.approx(
                items["bytes-line"]["x1"] + gigabytes * 1e9 * per_byte, abs=0.1
            )


def test_the_bars_of_the_traffic_are_as_long_as_the_bytes():
    state = START | {"micro_batches": 2}
    items = {item["key"]: item for item in zero_traffic.scene(state, "en")["items"]}
    reports = {stage: report(state | {"stage": stage}) for stage in STAGES[:4]}
    most = max(rank.total("wire_bytes") for rank in reports.values())
    for stage, rank in reports.items():
        for op in ("all_reduce", "reduce_scatter", "all_gather"):
            width = items[f"{stage}-{op}"]["width"] + 1 if f"{stage}-{op}" in items else 0
            assert width == pytest.approx(500 * rank.total("wire_bytes", op=op) / most, abs=0.1)
    assert items["plain"]["x1"] == pytest.approx(
        118 + 500 * reports["0"].total("wire_bytes") / most, abs=0.1
    )


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch, no_memory_of_estimates):
    before = texts(zero_bytes.scene(START, "en")), texts(zero_traffic.scene(START, "en"))
    for cached in (
        *ESTIMATES,
        zero_costs.memory,
        zero_costs.traffic,
        zero_bytes._common,
        zero_traffic._common,
    ):
        cached.cache_clear()
    monkeypatch.setattr(update, "FP32", 6)
    monkeypatch.setattr(estimate_traffic, "unit_bytes", lambda unit, config: 3 * unit.numel)
    after = texts(zero_bytes.scene(START, "en")), texts(zero_traffic.scene(START, "en"))
    assert {key for key in before[0] if before[0][key] != after[0].get(key)} >= {
        "figure0",
        "key-name-optimizer",
        *(f"total{s}" for s in "0123"),
    }
    assert {key for key in before[1] if before[1][key] != after[1].get(key)} >= {
        "figure0",
        "figure1",
        "ratio3",
    }


def test_a_ratio_that_is_nearly_one_is_not_called_one():
    assert (
        zero_traffic._times(Setting("tiny", 1024, "fp32", "adamw", 1), "1")
        != "1 ×"
        == zero_traffic._times(Setting("tiny", 4, "fp32", "adamw", 1), "1")
    )
    assert digits(1.0) == "1.00"


def test_the_challenge_has_the_solutions_that_it_was_made_for():
    explorer = tool("en")
    by_name = {c.name: c for c in explorer.controls}
    asked = ("model", "precision", "optimizer", "ranks", "micro_batches", "stage")
    every = list(states([by_name[name] for name in asked]))
    solved = [
        [tuple(state.values()) for state in every if explorer.far(step, state) is None]
        for step in explorer.steps
    ]
    print("states that meet each step:", [len(found) for found in solved])
    assert solved == [
        [("llama3-8b", "bf16-pure", "adamw", 8, 1, "2")],
        [("llama3-8b", "bf16-pure", "adamw", 16, 8, "1")],
        [("llama3-70b", "bf16-pure", "adamw", 64, 1, "3")],
    ]
    before = start_state(explorer.controls)
    for step, found in zip(explorer.steps, solved, strict=True):
        solution = explorer.solution(step)
        assert tuple(solution[name] for name in asked) in found
        assert len([name for name in asked if solution[name] != before[name]]) <= 4
        before = solution


def test_what_fails_is_told_how_far_off_and_why():
    explorer = tool("en")
    first, second, third = explorer.steps
    for step, change, words in (
        (first, {"stage": "1"}, ("44.2", "40", "keeps all parameters and gradients")),
        (first, {"stage": "3"}, ("1.50 ×", "1 × is asked", "twice in each of 1 micro-batch")),
        (second, {"stage": "2"}, ("4.50 ×", "gradients in each of 8 micro-batches")),
        (second, {"ranks": 8}, ("44.2", "40")),
        (third, {"stage": "2"}, ("160", "40", "keeps all parameters, 141")),
        (third, {"ranks": 32}, ("Ranks N is 32", "64")),
        (third, {"micro_batches": 8}, ("12.0 ×", "1.5 × is asked")),
    ):
        told = explorer.far(step, explorer.solution(step) | change)
        assert all(part in told for part in words), told


def test_one_colour_is_one_kind_of_bytes_in_every_panel():
    """What a colour stands for, by the keys beside it and in the bars, in all three panels."""
    meaning: dict[str, set[str]] = {}
    kinds = {
        "old": "parameters",
        "new": "parameters",
        "sum": "gradients",
        "filling": "buckets",
        "held": "optimizer",
        "all_gather": "parameters",
        "all_reduce": "gradients",
        "reduce_scatter": "gradients",
    }
    for panel, state in product(
        tool("en").panels, ({"stage": "1"}, {"stage": "3"}, {"stage": "offload"})
    ):
        whole = start_state(tool("en").controls) | state
        for item in tool("en").scene(panel, whole)["items"]:
            parts = re.fullmatch(r"(?:key|0|1|2|3|offload)-([a-z_]+)", item["key"])
            if item["tag"] == "rect" and parts and item["fill"] not in ("paper", "void"):
                kind = kinds.get(parts.group(1), parts.group(1))
                meaning.setdefault(item["fill"], set()).add(kind)
    assert all(len(found) == 1 for found in meaning.values()), meaning
    assert {"parameters", "gradients", "optimizer", "gathered", "buckets", "local"} == {
        kind for found in meaning.values() for kind in found
    }
