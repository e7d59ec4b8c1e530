"""The data-parallelism tool as data: where its numbers come from, what its challenge asks, and how
its chunks fly. What holds for every tool is tested in test_all_tools.py."""

from __future__ import annotations

import re

import pytest

from lab_utils.config import TrainConfig
from lab_utils.config.presets import PRESETS
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.time import data_parallel as estimate_time
from lab_utils.estimate.time import data_parallel_step
from lab_utils.layout.ring import ring_all_reduce
from lab_utils.layout.wire import wire_bytes
from lab_utils.widgets.data_parallelism import costs, ring_walk, timeline
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.frame.units import nbytes, percent, seconds

LIVE = {"ranks": 8, "model": "gpt2", "tokens": 2**17, "sync": "25", "link": "100"}


@pytest.fixture(scope="module")
def tool(tool_of):
    return tool_of("data_parallelism", "en")


def figures(state: dict, lang: str = "en") -> dict[str, str]:
    items = timeline.scene(state, lang)["items"]
    return {item["key"]: item["text"] for item in items if item["tag"] == "text"}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("ranks", costs.RANKS)
def test_every_picture_of_the_timeline_says_its_result(ranks, lang):
    for sync in costs.SYNCS:
        state = LIVE | {"ranks": ranks, "sync": sync}
        results = ("figure0",) if ranks == 1 else ("figure0", "figure1", "figure2")
        shown = figures(state, lang)
        assert all(shown[key] in timeline.scene(state, lang)["alt"] for key in results), state


@pytest.mark.parametrize("link", ["10", "nvlink"])
@pytest.mark.parametrize("sync", ["naive", "25", "one"])
def test_the_figures_are_the_estimators(link, sync):
    h100 = cluster("H100-SXM")
    machine = h100.replace(network_bytes_per_second=None)
    if link == "10":
        machine = machine.replace(
            link_bytes_per_second=1.25e9, link_latency_seconds=h100.network_latency_seconds
        )
    flags = {
        "naive": {"gradient_sync": "naive"},
        "25": {"bucket_mib": 25},
        "one": {"bucket_mib": 10**6},
    }[sync]
    step = data_parallel_step(
        TrainConfig.of("gpt2", dp=8, global_batch=8 * 128, precision="bf16", **flags), machine
    )
    shown = figures(LIVE | {"link": link, "sync": sync})
    assert shown["figure0"] == seconds(step.step_seconds)
    assert (
        shown["figure1"]
        == nbytes(step.wire_bytes)
        == nbytes(wire_bytes("all_reduce", step.payload_bytes, 8))
    )
    assert shown["figure2"] == shown["curve-value8"] == percent(step.scaling_efficiency)
    assert (
        shown["figure-detail0"]
        == f"compute {seconds(step.compute_seconds)} + waiting {seconds(step.exposed_seconds)}"
    )
    assert f"{len(step.buckets)} all-reduce" in shown["figure-detail1"]
    assert shown["key-name-sand"].endswith(seconds(step.hidden_seconds))
    assert shown["key-name-fire"].endswith(seconds(step.exposed_seconds))


@pytest.mark.parametrize("sync", ["naive", "1", "100"])
def test_the_bars_are_as_long_as_the_estimators_seconds(sync):
    state = LIVE | {"sync": sync, "link": "10"}
    step = costs.step_of(state)
    items = {item["key"]: item for item in timeline.scene(state, "en")["items"]}
    per_second = items["time-line"]["x2"] - items["time-line"]["x1"]
    per_second /= step.step_seconds
    assert items["bar-forward"]["width"] == pytest.approx(
        step.forward_seconds * per_second, abs=0.1
    )
    assert items["bar-backward"]["width"] == pytest.approx(
        step.backward_seconds * per_second, abs=0.1
    )
    assert items["bar-waiting"]["width"] == pytest.approx(
        step.exposed_seconds * per_second, abs=0.1
    )
    drawn = [item for key, item in items.items() if key.startswith("ready")]
    assert [round((item["x1"] - items["time-line"]["x1"]) / per_second, 2) for item in drawn] == (
        [round(bucket.ready_seconds, 2) for bucket in step.buckets]
        if len(step.buckets) <= 16
        else []
    )
    for part, expected in (("exposed", step.exposed_seconds), ("hidden", step.hidden_seconds)):
        bars = [item["width"] for key, item in items.items() if re.fullmatch(rf"{part}\d+", key)]
        assert sum(bars) == pytest.approx(expected * per_second, abs=1.2 * len(bars) + 0.1), (
            "but for the gap of one unit that parts two bars"
        )


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch):
    before = figures(LIVE)
    caches = costs._estimated, costs.efficiencies
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(estimate_time, "GRADIENT_BYTES", 2 * estimate_time.GRADIENT_BYTES)
    after = figures(LIVE)
    for cached in caches:
        cached.cache_clear()
    assert {key for key in ("figure0", "figure1", "figure2") if before[key] != after[key]} == {
        "figure0",
        "figure1",
        "figure2",
    }


def solved(tool, number: int) -> list[dict]:
    """Every state of the timeline that meets a step."""
    controls = [control for control in tool.controls if control.name in costs.SETTING]
    step = tool.steps[number]
    return [state for state in states(controls) if tool.far(step, state) is None]


def test_the_first_step_is_solved_by_overlapping_and_by_nothing_else(tool):
    assert {state["sync"] for state in solved(tool, 0)} == {"1", "25"}
    assert start_state(tool.controls)["sync"] == "naive"


def test_the_second_step_is_solved_by_more_tokens_and_overlapping(tool):
    found = [(state["tokens"], state["sync"]) for state in solved(tool, 1)]
    assert sorted(found) == [(2**18, "1"), (2**18, "25")]
    step = tool.steps[1]
    wrong = tool.solution(step) | {"tokens": 2**17}
    assert re.match(r"85.%.* of 90.%: .*the embedding, 154.MB", tool.far(step, wrong))
    assert "8,388,608 tokens in a step" in tool.far(step, wrong | {"tokens": 2**20})


def test_the_third_step_is_solved_by_the_most_ranks_that_share_the_batch(tool):
    assert {(s["ranks"], s["tokens"]) for s in solved(tool, 2)} == {(64, 2**17)}
    fewer = tool.solution(tool.steps[2]) | {"ranks": 8, "tokens": 2**20}
    assert "met on 8 ranks" in tool.far(tool.steps[2], fewer)
    assert all(
        ranks <= 64 for ranks in costs.RANKS for tokens in costs.TOKENS if ranks * tokens == 2**23
    )


def test_the_reasons_name_what_stands_in_the_way(tool):
    step, state = tool.steps[0], tool.solution(tool.steps[0])
    said = {sync: tool.far(step, state | {"sync": sync}) for sync in ("naive", "one", "100")}
    assert "nothing travels before the backward pass has ended" in said["naive"]
    assert "one bucket of 498\u00a0MB" in said["one"]
    assert "holds the embedding, 154\u00a0MB" in said["100"]
    assert "given Ranks N = 4" in tool.far(step, state | {"ranks": 8})


def test_a_batch_is_a_whole_number_of_sequences_of_every_model():
    assert all(
        tokens % PRESETS[model]["seq"] == 0 for tokens in costs.TOKENS for model in costs.MODELS
    )


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_walk_adds_every_gradient_once_and_ends_whole_everywhere(ranks):
    history = ring_walk.ring_sums(ranks)
    assert len(history) == 2 * (ranks - 1) + 1
    for before, after in zip(history, history[1:], strict=False):
        changed = [
            (r, c) for r in range(ranks) for c in range(ranks) if before[r][c] != after[r][c]
        ]
        assert len(changed) == ranks, "each rank receives one chunk in a step"
        assert len({c for _, c in changed}) == ranks
    everyone = frozenset(range(ranks))
    assert all(chunk == everyone for chunks in history[-1] for chunk in chunks)
    # in the reduce-scatter the fullest chunk gains one contribution a step: none is added twice
    for step in range(ranks):
        assert max(len(chunk) for chunks in history[step] for chunk in chunks) == step + 1


def test_what_is_drawn_of_many_ranks_holds_for_a_ring_that_was_walked():
    ranks, everyone = 16, frozenset(range(16))
    half = ring_walk.ring_sums(ranks)[ranks - 1]
    for rank in range(ranks):
        for chunk in range(ranks):
            drawn = ring_walk._chunk(ranks, rank, chunk, ranks - 1, "en")[1]
            assert (drawn == "16/16") == (half[rank][chunk] == everyone)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_chunks_fly_along_the_ring(ranks):
    """From one picture to the next every chunk that is passed on goes one rank to the right, and
    lands where layout/ring.py says; at the edge it goes out, and comes in as another element."""
    columns, _ = ring_walk._columns(ranks)
    pitch = columns[1] - columns[0]
    before = None
    for moment in ["backward", *range(1, 2 * (ranks - 1) + 1)]:
        items = ring_walk.scene({"ranks": ranks, "moment": moment}, "en")["items"]
        flying = {item["key"]: item for item in items if item["key"].startswith("fly")}
        seen = {key: item for key, item in flying.items() if item["opacity"]}
        if moment == "backward":
            assert not seen
        else:
            hops = ring_all_reduce(ranks)[moment - 1]
            landed = {(int(key[3:].split("-")[0]), item["x"]) for key, item in seen.items()}
            assert landed == {(hop.chunk, round(columns[hop.receiver], 1)) for hop in hops}
            for key, item in seen.items():
                came = item["x"] - before[key]["x"]
                assert came == pytest.approx(pitch if before[key]["opacity"] else came, abs=0.2)
                assert 0 < came <= pitch + 0.2, "to the right, one rank at most"
        before = flying


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_new_number_waits_until_its_chunk_has_landed(ranks):
    for moment in range(1, 2 * (ranks - 1) + 1):
        items = ring_walk.scene({"ranks": ranks, "moment": moment}, "en")["items"]
        late = {item["key"] for item in items if item.get("class") == "late"}
        hops = ring_all_reduce(ranks)[moment - 1]
        assert late == {f"cell{hop.receiver}-{hop.chunk}" for hop in hops}
        assert sum(item.get("class") == "landing" for item in items) == ranks


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_each_ring_step_shows_one_arrow_from_every_rank(ranks):
    for moment, _ in ring_walk.moments(ranks):
        items = ring_walk.scene({"ranks": ranks, "moment": moment}, "en")["items"]
        arrows = [item for item in items if item["key"].startswith("hop")]
        assert len(arrows) == (ranks + 1 if isinstance(moment, int) else 0), (
            "and one that enters where the ring closes"
        )
