"""The data-parallelism tool as data: every scene of both panels in both languages, and where its numbers come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from lab_utils.config import TrainConfig
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.time import data_parallel as estimate_time
from lab_utils.estimate.time import data_parallel_step
from lab_utils.layout.wire import wire_bytes
from lab_utils.presets import PRESETS
from lab_utils.widgets import Explorer, data_parallelism, ring_walk
from lab_utils.widgets.controls import start_state, states
from lab_utils.widgets.table import compress, decompress, unpack
from lab_utils.widgets.units import nbytes, percent, seconds

HAN = r"[一-鿿]"
LIVE = {"ranks": 8, "model": "gpt2", "tokens": 2**17, "sync": "25", "link": "100"}


@pytest.fixture(scope="module")
def tools() -> dict[str, Explorer]:
    return {lang: data_parallelism.explorer(lang) for lang in ("en", "zh")}


def every_scene(tool: Explorer) -> Iterator[tuple[str, dict, dict]]:
    """Panel name, state, scene, from the table as the page gets it."""
    table = decompress(compress(tool.table))
    by_name = {c.name: c for c in tool.controls}
    for panel in tool.panels:
        for state, scene in zip(states([by_name[name] for name in panel.controls]), unpack(table[panel.name]), strict=True):
            assert (state is None) == (scene is None)
            if state:
                yield panel.name, state, scene


def figures(state: dict, lang: str = "en") -> dict[str, str]:
    return {item["key"]: item["text"] for item in data_parallelism.timeline(state, lang)["items"] if item["tag"] == "text"}


def test_the_table_holds_what_the_scenes_draw(tools):
    drawn = {"walk": ring_walk.scene, "timeline": data_parallelism.timeline}
    count = 0
    for panel, state, scene in every_scene(tools["en"]):
        if panel == "walk" or count % 7 == 0:       # the whole timeline again would take as long as the table itself
            assert scene == drawn[panel](state, "en")
        count += 1
    assert count == sum(len(ring_walk.moments(n)) for n in data_parallelism.RANKS) + 7 * 3 * 3 * 5 * 4


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_scene_has_unique_keys_and_stays_inside(tools, lang):
    sizes = {panel.name: (panel.width, panel.height) for panel in tools[lang].panels}
    for name, state, scene in every_scene(tools[lang]):
        keys = [item["key"] for item in scene["items"]]
        assert len(set(keys)) == len(keys), state
        width, height = sizes[name]
        for item in scene["items"]:
            if item["tag"] == "rect":
                assert item["x"] >= 0, (state, item)
                assert item["x"] + item["width"] <= width + 0.1, (state, item)
                assert item["y"] >= 0, (state, item)
                assert item["y"] + item["height"] <= height, (state, item)
                assert min(item["width"], item["height"]) >= 0, (state, item)


def test_every_picture_of_the_timeline_says_its_result(tools):
    for lang in ("en", "zh"):
        for name, state, scene in every_scene(tools[lang]):
            if name == "timeline":
                shown = {item["key"]: item["text"] for item in scene["items"] if item["tag"] == "text"}
                results = ("figure0",) if state["ranks"] == 1 else ("figure0", "figure1", "figure2")
                assert all(shown[key] in scene["alt"] for key in results), state


def test_chinese_is_chinese(tools):
    wrong = re.compile(rf"{HAN}\s*[,;:()?!]|[,;:()?!]\s*{HAN}")
    texts = [words for _, _, scene in every_scene(tools["zh"])
             for words in (scene["alt"], *(item[k] for item in scene["items"] for k in ("text", "title") if k in item))]  # fmt: skip
    spec = tools["zh"].spec
    texts += [spec["title"], spec["challenge"]["task"], *spec["words"].values(), *(c["label"] for c in spec["controls"])]
    texts += [words for c in spec["controls"] for options in c["words"] for words in options]
    assert not {words for words in texts if wrong.search(words)}
    assert all(re.search(HAN, scene["alt"]) for _, _, scene in every_scene(tools["zh"]))
    assert not any(re.search(HAN, str(scene)) for _, _, scene in every_scene(tools["en"]))
    assert not any(re.search(HAN, str(part)) for part in (tools["en"].spec, tools["en"].title))


@pytest.mark.parametrize("link", ["10", "nvlink"])
@pytest.mark.parametrize("sync", ["naive", "25", "one"])
def test_the_figures_are_the_estimators(link, sync):
    h100 = cluster("H100-SXM")
    machine = h100.replace(network_bytes_per_second=None)
    if link == "10":
        machine = machine.replace(link_bytes_per_second=1.25e9, link_latency_seconds=h100.network_latency_seconds)
    flags = {"naive": {"gradient_sync": "naive"}, "25": {"bucket_mib": 25}, "one": {"bucket_mib": 10**6}}[sync]
    step = data_parallel_step(TrainConfig.of("gpt2", dp=8, global_batch=8 * 128, precision="bf16", **flags), machine)
    shown = figures(LIVE | {"link": link, "sync": sync})
    assert shown["figure0"] == seconds(step.step_seconds)
    assert shown["figure1"] == nbytes(step.wire_bytes) == nbytes(wire_bytes("all_reduce", step.payload_bytes, 8))
    assert shown["figure2"] == shown["curve-value8"] == percent(step.scaling_efficiency)
    assert shown["figure-detail0"] == f"compute {seconds(step.compute_seconds)} + waiting {seconds(step.exposed_seconds)}"
    assert f"{len(step.buckets)} all-reduce" in shown["figure-detail1"]
    assert shown["key-name-sand"].endswith(seconds(step.hidden_seconds))
    assert shown["key-name-fire"].endswith(seconds(step.exposed_seconds))


@pytest.mark.parametrize("sync", ["naive", "1", "100"])
def test_the_bars_are_as_long_as_the_estimators_seconds(sync):
    state = LIVE | {"sync": sync, "link": "10"}
    step = data_parallelism.estimated(*(state[name] for name in ("ranks", "model", "link", "tokens", "sync")))
    items = {item["key"]: item for item in data_parallelism.timeline(state, "en")["items"]}
    per_second = items["time-line"]["x2"] - items["time-line"]["x1"]
    per_second /= step.step_seconds
    assert items["bar-forward"]["width"] == pytest.approx(step.forward_seconds * per_second, abs=0.1)
    assert items["bar-backward"]["width"] == pytest.approx(step.backward_seconds * per_second, abs=0.1)
    assert items["bar-waiting"]["width"] == pytest.approx(step.exposed_seconds * per_second, abs=0.1)
    drawn = [item for key, item in items.items() if key.startswith("ready")]
    assert [round((item["x1"] - items["time-line"]["x1"]) / per_second, 2) for item in drawn] == (
        [round(bucket.ready_seconds, 2) for bucket in step.buckets] if len(step.buckets) <= 16 else [])
    for part, expected in (("exposed", step.exposed_seconds), ("hidden", step.hidden_seconds)):
        bars = [item["width"] for key, item in items.items() if re.fullmatch(rf"{part}\d+", key)]
        assert sum(bars) == pytest.approx(expected * per_second, abs=1.2 * len(bars) + 0.1), "but for the gap of one unit that parts two bars"


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch):
    before = figures(LIVE)
    caches = data_parallelism.estimated, data_parallelism._efficiencies
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(estimate_time, "GRADIENT_BYTES", 2 * estimate_time.GRADIENT_BYTES)
    after = figures(LIVE)
    for cached in caches:
        cached.cache_clear()
    assert {key for key in ("figure0", "figure1", "figure2") if before[key] != after[key]} == {"figure0", "figure1", "figure2"}


def test_the_challenge_needs_more_than_one_change(tools):
    tool = tools["en"]
    start, met = start_state(tool.controls), tool.challenge.met
    given = start | {"ranks": 8, "link": "10"}
    assert not met(given)
    for control in tool.controls:
        if control.name in ("model", "tokens", "sync"):
            assert not any(met(given | {control.name: value}) for value, _ in control.options), f"{control.name} alone solves it"
    assert met(given | {"model": "llama3-8b", "tokens": 2**20, "sync": "25"})
    assert not met(given | {"model": "llama3-8b", "tokens": 2**20, "sync": "one"}), "one bucket cannot overlap"
    assert not met(given | {"model": "llama3-8b", "tokens": 2**20, "sync": "25", "ranks": 4}), "the task says 8 ranks"


def test_a_batch_is_a_whole_number_of_sequences_of_every_model():
    assert all(tokens % PRESETS[model]["seq"] == 0 for tokens in data_parallelism.TOKENS for model in data_parallelism.MODELS)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_walk_adds_every_gradient_once_and_ends_whole_everywhere(ranks):
    history = ring_walk.ring_sums(ranks)
    assert len(history) == 2 * (ranks - 1) + 1
    for before, after in zip(history, history[1:], strict=False):
        changed = [(r, c) for r in range(ranks) for c in range(ranks) if before[r][c] != after[r][c]]
        assert len(changed) == ranks, "each rank receives one chunk in a step"
        assert len({c for _, c in changed}) == ranks
    everyone = frozenset(range(ranks))
    assert all(chunk == everyone for chunks in history[-1] for chunk in chunks)
    for step in range(ranks):       # in the reduce-scatter the fullest chunk gains one contribution a step: none is added twice
        assert max(len(chunk) for chunks in history[step] for chunk in chunks) == step + 1


def test_what_is_drawn_of_many_ranks_holds_for_a_ring_that_was_walked():
    ranks, everyone = 16, frozenset(range(16))
    half = ring_walk.ring_sums(ranks)[ranks - 1]
    for rank in range(ranks):
        for chunk in range(ranks):
            drawn = ring_walk._chunk(ranks, rank, chunk, ranks - 1, "en")[1]
            assert (drawn == "16/16") == (half[rank][chunk] == everyone)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_each_ring_step_shows_one_arrow_from_every_rank(ranks):
    for moment, _ in ring_walk.moments(ranks):
        items = ring_walk.scene({"ranks": ranks, "moment": moment}, "en")["items"]
        arrows = [item for item in items if item["key"].startswith("hop")]
        assert len(arrows) == (ranks + 1 if isinstance(moment, int) else 0), "and one that enters where the ring closes"
        outlined = [item for item in items if item["key"].startswith("cell") and item.get("stroke") == "fire"]
        assert len(outlined) == (ranks if isinstance(moment, int) else 0)
