"""The tool of model parallelism as data: its walk is the simulator's, its bytes are the
estimator's. What holds for every tool is tested in test_all_tools.py."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.estimate import estimate
from lab_utils.estimate.hardware import cluster
from lab_utils.widgets.frame.controls import states
from lab_utils.widgets.frame.units import nbytes, percent
from lab_utils.widgets.model_parallelism import costs, split, walk
from lab_utils.widgets.pipeline_schedules import costs as clock


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_what_devices_hold_is_the_estimators(devices):
    job = TrainConfig.of(
        costs.MODEL,
        pp=devices,
        global_batch=1,
        micro_batch=1,
        precision="bf16-pure",
        schedule="gpipe",
    )
    ranks = estimate(job, cluster("H100-SXM")).ranks
    expected = [{term: rank.memory[term] for term in costs.TERMS} for rank in ranks]
    for came, right in zip(costs.held(costs.equal_sizes(devices)), expected, strict=True):
        # the boundary tensor that a stage receives is counted with its activations
        for term in costs.TERMS:
            assert came[term] == pytest.approx(right[term], rel=0.01), term


@pytest.mark.parametrize("devices", costs.DEVICES)
def test_one_batch_on_n_devices_idles_all_but_one(devices):
    last = walk.moments(devices)[-1][0]
    assert last == 2 * devices
    items = walk.scene({"devices": devices, "moment": last}, "en")["items"]
    shown = {item["key"]: item.get("text") for item in items}
    assert shown["figure1"] == percent(1 - 1 / devices)


def test_the_time_of_a_batch_is_the_same_wherever_one_cuts():
    whole = {
        round(sum(split.totals(sizes)[1]), 9)
        for sizes in ([8, 8, 8, 8], [6, 10, 9, 7], [9, 9, 8, 6])
    }
    assert len(whole) == 1
    assert whole.pop() == pytest.approx(costs.one_batch(8).seconds)


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch):
    def figure() -> str:
        items = walk.scene({"devices": 4, "moment": 8}, "en")["items"]
        return next(item["text"] for item in items if item["key"] == "figure0")

    before, whole = figure(), clock.parts(costs.MODEL)
    slower = whole._replace(block=tuple(2 * seconds for seconds in whole.block))
    costs.one_batch.cache_clear()
    monkeypatch.setattr(costs, "parts", lambda _: slower)
    after = figure()
    costs.one_batch.cache_clear()
    assert before != after


def solved(tool, number: int) -> list[tuple[int, ...]]:
    controls = [control for control in tool.controls if control.name.startswith("cut")]
    whole = {"devices": 2, "moment": 0}
    step = tool.steps[number]
    return [tuple(s.values()) for s in states(controls) if tool.far(step, whole | s) is None]


def test_the_last_two_steps_have_one_solution_each(tool_of):
    tool = tool_of("model_parallelism", "en")
    assert solved(tool, 1) == [(7, 16, 25)]
    assert solved(tool, 2) == [(8, 17, 26)]
    assert nbytes(split.LIMIT_BYTES) in tool.far(tool.steps[2], {"cut1": 9, "cut2": 18, "cut3": 26})
