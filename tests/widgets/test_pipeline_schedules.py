"""The pipeline tool as data: what it draws is what the simulator played and what real ranks took.
What holds for every tool is tested in test_all_tools.py."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.time import pipeline as estimate_time
from lab_utils.estimate.time.bubbles import bubble_over_ideal
from lab_utils.estimate.time.stages import StageClock
from lab_utils.layout.schedule import make_schedule
from lab_utils.layout.schedule_check import in_flight
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.pipeline_schedules import balance, costs, timeline
from lab_utils.widgets.pipeline_schedules.recorded import RECORDING, chunks, recorded, simulated

LIVE = {"schedule": "zero-bubble", "ranks": 4, "micro": 8}


def items_of(scene: dict) -> dict[str, dict]:
    return {item["key"]: item for item in scene["items"]}


@pytest.mark.parametrize("schedule", costs.SCHEDULES)
@pytest.mark.parametrize("ranks", costs.RANKS)
def test_the_figures_are_the_closed_forms(schedule, ranks):
    v, micro = chunks(schedule), 8
    shown = items_of(timeline.scene({"schedule": schedule, "ranks": ranks, "micro": micro}, "en"))
    closed = bubble_over_ideal(schedule, ranks, micro, 1, 1, 1, v)
    assert shown["figure0"]["text"] == timeline.share(closed)
    held = in_flight(make_schedule(schedule, ranks, micro, v), until="W")
    assert shown["figure2"]["text"] == f"{max(held) / v:g}"
    assert [shown[f"held-number{r}"]["text"] for r in range(ranks)] == [f"{n / v:g}" for n in held]


def test_every_action_of_the_schedule_is_drawn_where_the_simulator_has_it():
    shown = items_of(timeline.scene(LIVE, "en"))
    played = costs.played(*LIVE.values()).timeline
    line = shown["time-line"]
    scale = (line["x2"] - line["x1"]) / played.seconds
    for span in played.spans:
        kind, micro, stage = span.action
        bar = shown[f"{kind}{micro}-{stage}"]
        assert bar["x"] == pytest.approx(line["x1"] + span.start * scale, abs=0.1)
        assert bar["width"] == pytest.approx((span.end - span.start) * scale, abs=1)
    real = {key for key in shown if key.startswith("real-")}
    assert len(real) == len(played.spans)


def test_what_there_is_not_is_refused_in_words():
    scene = timeline.scene({"schedule": "interleaved", "ranks": 8, "micro": 4}, "en")
    assert "groups of 8" in scene["alt"]


def test_every_record_is_the_simulators_within_a_tenth():
    assert [case for case, _ in RECORDING.runs] == [dict(case) for case in RECORDING.cases()]
    for case, _ in RECORDING.runs:
        told, ran = simulated(**case), recorded(**case)
        assert ran.bubble_over_ideal == pytest.approx(told.bubble_over_ideal, rel=0.1), case
        assert ran.seconds == pytest.approx(told.seconds, rel=0.05), case


@pytest.mark.parametrize("model", costs.MODELS)
def test_the_stages_are_the_estimators(model):
    job = TrainConfig.of(model, pp=4, global_batch=8, micro_batch=1, precision="bf16-pure")
    expected = [
        s.forward + s.backward + s.weight for s in StageClock(cluster("H100-SXM")).stages(job)
    ]
    layers = costs.parts(model).layers
    _, came = costs.cut(model, *(i * layers // 4 for i in (1, 2, 3)))
    assert came == pytest.approx(expected)


def test_the_lanes_fill_the_step():
    state = {"model": "llama3-8b", "cut1": 9, "cut2": 18, "cut3": 26}
    shown = items_of(balance.scene(state, "en"))
    assert shown["part-name3"]["text"] == "6 + head"
    widths = [shown[f"part{stage}"]["width"] for stage in range(4)]
    part = costs.parts("llama3-8b")
    assert widths[3] / widths[0] == pytest.approx((6 + part.head_in_blocks) / 9, rel=0.01)


def test_another_constant_in_the_estimator_is_another_figure(monkeypatch):
    before = items_of(timeline.scene(LIVE, "en"))["figure0"]["text"]
    per_stage = estimate_time._per_stage
    costs.played.cache_clear()
    monkeypatch.setattr(
        estimate_time,
        "_per_stage",
        lambda s, n: [x * (1 + i) for i, x in enumerate(per_stage(s, n))],
    )
    after = items_of(timeline.scene(LIVE, "en"))["figure0"]["text"]
    costs.played.cache_clear()
    assert before != after


def solved(tool, number: int) -> list[dict]:
    names = tool.steps[number].needs[-1].controls
    controls = [control for control in tool.controls if control.name in names]
    whole = start_state(tool.controls)
    return [s for s in states(controls) if s and tool.far(tool.steps[number], whole | s) is None]


def test_only_zero_bubble_solves_the_second_step(tool_of):
    found = solved(tool_of("pipeline_schedules", "en"), 1)
    assert {(s["schedule"], s["micro"]) for s in found} == {("zero-bubble", 8)}


def test_only_a_short_last_stage_solves_the_third_step(tool_of):
    found = [s for s in solved(tool_of("pipeline_schedules", "en"), 2) if s["model"] == "llama3-8b"]
    assert found
    assert {s["cut3"] for s in found} == {26, 27}
