"""The gradient-checkpointing tool without a browser: its curves are the estimator's and the real
runs', its words fit its numbers."""

from __future__ import annotations

import re
from itertools import combinations, product

import pytest

from lab_utils import estimate
from lab_utils.estimate.program.model import Program
from lab_utils.widgets.frame import Explorer
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.frame.units import nbytes, percent
from lab_utils.widgets.gradient_checkpointing import costs as checkpoint_costs
from lab_utils.widgets.gradient_checkpointing import measured as checkpoint_measured
from lab_utils.widgets.gradient_checkpointing import tool as gradient_checkpointing
from lab_utils.widgets.gradient_checkpointing import tradeoff as checkpoint_tradeoff
from lab_utils.widgets.gradient_checkpointing import walk_scene as checkpoint_walk
from lab_utils.widgets.gradient_checkpointing import walk_words
from lab_utils.widgets.gradient_checkpointing.challenge import CHOICE, LIMITS
from lab_utils.widgets.gradient_checkpointing.costs import (
    ATTENTION,
    LAYERS,
    PRESETS,
    config,
    curve,
    extra_work,
    flops,
    policies,
)
from lab_utils.widgets.gradient_checkpointing.walk import (
    MOMENTS,
    Moment,
    columns_of,
    peak_moment,
    policy_of,
)


@pytest.fixture(scope="module")
def tool(tool_of) -> Explorer:
    return tool_of("gradient_checkpointing", "en")


def every_state(tool: Explorer, panel: int) -> list[dict]:
    by_name = {control.name: control for control in tool.controls}
    return [
        state for state in states([by_name[name] for name in tool.panels[panel].controls]) if state
    ]


def texts(scene: dict) -> dict[str, str]:
    return {item["key"]: item["text"] for item in scene["items"] if "text" in item}


BLOCK_3_BACK = Moment("backward", 3)


def state_of(policy: str, moment: Moment = BLOCK_3_BACK) -> dict:
    return gradient_checkpointing._ticked(policy) | {"moment": moment}


def test_every_choice_of_layers_is_there_once():
    assert len(policies()) == len(set(policies())) == 2**LAYERS + 1
    assert set(PRESETS.values()) < set(policies())


def test_the_peaks_and_flops_are_the_estimators():
    for policy in {*PRESETS.values(), *policies()[::6]}:
        report = estimate(config(policy))
        assert curve(policy).peak == report.ranks[0].memory["activations"]
        assert flops(policy) == report.flops["hardware"]
        assert max(point.saved for point in curve(policy).points) == curve(policy).peak
        assert curve(policy).points[0].saved < 10**5, "a step begins with its tokens at most"
        assert curve(policy).points[-1].saved < 10**5


def test_the_real_runs_showed_the_same(monkeypatch):
    for policy in PRESETS.values():
        run = checkpoint_measured.measured(policy)
        assert run == (curve(policy).peak, flops(policy))
        assert walk_words.agrees(policy)
    assert walk_words.agrees("0") is None
    monkeypatch.setattr(walk_words, "measured", lambda policy: checkpoint_measured.Measured(1, 1))
    assert "not the same" in texts(checkpoint_walk.scene(state_of("none"), "en"))["note"]


def test_a_layer_that_is_kept_is_saved_once_and_one_that_is_recomputed_comes_back():
    """Saved bytes of a layer's moments: forward adds, backward takes away; a recomputed one adds
    little and comes back in full."""
    for policy in ("none", "0,2,4", "0,1,2,3,4,5", "5"):
        layers = checkpoint_costs.recomputed(policy)
        for layer in range(LAYERS):
            forward, back = (
                columns_of(policy)[MOMENTS.index(Moment(phase, layer))]
                for phase in ("forward", "backward")
            )
            kept = forward[-1].saved - forward[0].saved
            again = max(point.saved for point in back) - back[0].saved
            plain = columns_of("none")[MOMENTS.index(Moment("forward", layer))]
            whole = plain[-1].saved - plain[0].saved
            assert (kept < whole / 4) == (layer in layers)
            assert (again > whole / 2) == (layer in layers)
            assert any(point.phase == "recompute" for point in back) == (layer in layers)


def test_recomputing_the_last_layer_costs_as_much_and_saves_less():
    for layers in combinations(range(LAYERS - 1), 3):
        without, with_last = (
            ",".join(map(str, layers)),
            ",".join(map(str, (*layers[:2], LAYERS - 1))),
        )
        assert flops(with_last) == flops(without)
        assert curve(with_last).peak > curve(without).peak
        assert peak_moment(with_last) == Moment("backward", LAYERS - 1)


def test_the_figures_say_the_curve():
    for policy in ("none", "0", "0,2,4", ATTENTION, "1,5"):
        for moment in (Moment("forward", 2), Moment("backward", 2), Moment("backward", 0)):
            shown = texts(checkpoint_walk.scene(state_of(policy, moment), "en"))
            assert shown["figure0"] == nbytes(curve(policy).peak)
            assert shown["figure1"] == (
                f"+{percent(extra_work(policy))}" if policy != "none" else "0\u00a0%"
            )
            saved = [point.saved for point in columns_of(policy)[MOMENTS.index(moment)]]
            assert shown["figure2"] in {nbytes(saved[-1]), nbytes(max(saved))}
            assert ("forward again" in shown["figure-detail2"]) == (
                moment.phase == "backward"
                and moment.part in checkpoint_costs.recomputed(policy)
                or moment.phase == "backward"
                and policy == ATTENTION
            )


def test_every_dot_stands_where_its_bytes_and_work_are():
    items = {
        item["key"]: item for item in checkpoint_tradeoff.scene(state_of("0,2,4"), "en")["items"]
    }
    zero, hundred = items["grid0"]["y1"], items["grid100"]["y1"]
    left, ten = items["work0"]["x"], items["work10"]["x"]
    for policy in policies():
        dot = items[f"dot-{policy}"]
        assert (zero - dot["cy"]) / (zero - hundred) * 100e6 == pytest.approx(
            curve(policy).peak, abs=1e5
        )
        assert (dot["cx"] - left) / (ten - left) * 0.1 == pytest.approx(
            extra_work(policy), abs=1e-4
        )
        assert ("stroke" in dot) == (policy in PRESETS.values())
    assert (items["chosen"]["cx"], items["chosen"]["cy"]) == (
        items["dot-0,2,4"]["cx"],
        items["dot-0,2,4"]["cy"],
    )


def test_no_dot_touches_the_words_of_the_axis():
    items = {
        item["key"]: item for item in checkpoint_tradeoff.scene(state_of("none"), "en")["items"]
    }
    most_left = min(
        item["cx"] - item["r"] - item.get("stroke-width", 0) / 2
        for key, item in items.items()
        if key == "chosen" or key.startswith("dot-")
    )
    assert most_left >= items["grid-name150"]["x"] + 4, "the label ends there"


def test_the_curve_is_drawn_as_the_step_proceeds():
    """At each moment the columns so far, as high as their bytes, and the most of them; not what is
    to come."""
    for policy, moment in product(("none", "0,2,5", ATTENTION), MOMENTS):
        items = {
            item["key"]: item
            for item in checkpoint_walk.scene(state_of(policy, moment), "en")["items"]
        }
        now = MOMENTS.index(moment)
        drawn = {int(key.removeprefix("area")) for key in items if key.startswith("area")}
        assert drawn == set(range(now + 1))
        per_byte = (items["grid0"]["y1"] - items["grid100"]["y1"]) / 100e6
        columns = columns_of(policy)
        for i in drawn:
            heights = [float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", items[f"area{i}"]["d"])]
            most = max(point.saved for point in columns[i])
            assert items["grid0"]["y1"] - min(heights) == pytest.approx(most * per_byte, abs=0.2)
            assert min(heights) > items["row-head_loss"]["y"], "the curve stays below the rows"
        so_far = max(point.saved for column in columns[: now + 1] for point in column)
        assert nbytes(so_far) in items["peak-name"]["text"]
        assert items["peak-name"]["text"].startswith("peak") == (so_far == curve(policy).peak)
        for layer in range(LAYERS):
            came = now >= MOMENTS.index(Moment("forward", layer))
            assert (f"kept-{layer}" in items) == came
            if came:
                bar = items[f"kept-{layer}"]
                assert bar["x"] + bar["width"] <= items["cursor"]["x"] + items["cursor"]["width"]
    assert max(curve(policy).peak for policy in policies()) <= checkpoint_walk._SCALE


def test_each_step_of_the_challenge_is_solved_by_few_and_by_different_blocks(tool):
    every = [state for state in every_state(tool, 1) if state]
    solved = [
        {policy_of(state) for state in every if tool.far(step, state) is None}
        for step in tool.steps
    ]
    print("choices that meet each step:", [len(policies) for policies in solved])
    assert solved[0] == {ATTENTION}
    assert solved[1] == {",".join(map(str, some)) for some in combinations(range(LAYERS - 1), 3)}
    assert solved[2] == {",".join(map(str, range(LAYERS - 1)))}
    before = start_state(tool.controls)
    for step in tool.steps:
        assert policy_of(tool.solution(step)) in solved[tool.steps.index(step)]
        changed = [name for name in CHOICE if tool.solution(step)[name] != before[name]]
        assert len(changed) <= 4
        before = tool.solution(step)


def test_a_choice_that_fails_is_told_its_peak_and_its_cause(tool):
    first, second, third = tool.steps
    for step, policy, words in (
        (first, "none", ("155", "6 blocks keep everything")),
        (first, "0,1,2", ("+16", "3 blocks run forward twice")),
        (second, "0,2,5", ("103", "block 5 comes back")),
        (second, ATTENTION, ("104", "keep the rest")),
        (third, "0,1,2,3,4,5", ("+33", "6 blocks run forward twice")),
    ):
        told = tool.far(step, start_state(tool.controls) | state_of(policy))
        assert all(part in told for part in words), told
    assert len(LIMITS) == len(tool.steps)


def test_boxes_that_do_nothing_are_out_of_reach(tool):
    boxes = [control for control in tool.spec["controls"] if control["kind"] == "checkbox"]
    assert [box["only"] for box in boxes] == [["what", 0]] * LAYERS
    with_one = {"what": ATTENTION} | {f"layer{i}": i == 2 for i in range(LAYERS)}
    assert policy_of(with_one) == ATTENTION, "and rightly so: it makes no difference"


def test_another_program_in_the_estimator_is_another_curve(monkeypatch):
    before = curve("none").peak
    curve.cache_clear()
    real = Program.embed

    monkeypatch.setattr(
        Program, "embed", lambda self, tokens: _saved(self.torch, real(self, tokens))
    )
    assert curve("none").peak > before
    curve.cache_clear()


def _saved(torch, x):
    """x, with a copy of it kept for the backward pass."""
    y = torch.new(x.numel, x.width)
    torch.record(y, (x,), [torch.new(x.numel, x.width)], lambda saved, g: (g[0],))
    return y
