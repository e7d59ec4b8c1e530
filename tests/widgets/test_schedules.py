"""Learning-rate schedules: every state was run, the rates are the engine's, and a run of today ends
where the recorded one did."""

from statistics import median

import pytest

from lab_utils import launch, train
from lab_utils.config.lr_schedule import learning_rate
from lab_utils.course.schedules import tool_recorded
from lab_utils.widgets.frame.controls import start_state, states
from lab_utils.widgets.schedules import grid, scene
from lab_utils.widgets.schedules.grid import EVERY, STEPS, Setting, key, rate, settings


def test_every_state_of_the_tool_has_its_runs(tool_of):
    assert set(grid.kept()["runs"]) == {key(setting) for setting in settings()}
    tool = tool_of("schedules", "en")
    by_name = {control.name: control for control in tool.controls}
    for panel in tool.panels:
        for state in states([by_name[name] for name in panel.controls]):
            runs = grid.losses(scene.chosen(state, panel.name))
            assert [len(one) for one in runs] == [STEPS // EVERY + 1] * len(grid.SEEDS)
    assert grid.kept()["about"].keys() == {"torch", "date", "minutes"}


def test_rates_are_the_engines_where_it_has_them():
    for setting in settings():
        if setting.kind == "wsd" and setting.cooldown != 0.2:
            continue
        config = setting.config()
        for update in range(STEPS):
            assert rate(setting, update) == pytest.approx(learning_rate(config, update)), setting


def test_a_cool_down_of_another_share_falls_as_late_and_as_far_as_it_says():
    for share, first in ((0.1, 432), (0.4, 288)):
        setting = Setting("wsd", 0.003, 20, share, 0.1)
        found = [rate(setting, update) for update in range(STEPS)]
        assert found[19:first] == [0.003] * (first - 19)
        assert found[first] < 0.003
        assert found[-1] == pytest.approx(0.0003)


@pytest.mark.parametrize(
    "setting",
    [Setting("one-cycle", 0.003, 0, 0.1, 0.1), Setting("inverse-sqrt", 0.01, 100, 0.1, 0.0)],
    ids=key,
)
def test_a_run_of_today_begins_as_the_recorded_one(setting):
    (now,) = launch(tool_recorded.run, 1, setting, 1, 3 * EVERY, threads=1)
    assert now == pytest.approx(grid.losses(setting)[1][:4], abs=0.01)


def test_a_branch_of_today_ends_where_the_recorded_one_did():
    trunk, branch = (Setting(kind, 0.003, 20, 0.1, 0.0) for kind in ("constant", "wsd"))
    (found,) = launch(branches_of_today, 1, trunk, [branch], threads=1)
    for setting in (trunk, branch):
        assert found[key(setting)][-1] == pytest.approx(grid.losses(setting)[2][-1], abs=0.04)


def branches_of_today(trunk, branches):
    return dict(tool_recorded.trunk_and_branches(trunk, branches, 2))


def test_the_recorded_runs_are_the_engines():
    """Whose loss of the first batches is what our `train` says, too."""
    config = Setting("linear", 0.003, 20, 0.1, 0.0).config(steps=STEPS).replace(steps=4)
    # the rate of the first updates of a warm-up does not depend on the horizon
    (ours,) = launch(first_losses, 1, Setting("linear", 0.003, 20, 0.1, 0.0), threads=1)
    assert ours == pytest.approx(train(config).loss, rel=1e-6)


def first_losses(setting):
    from functools import partial

    from lab_utils.course.schedules.runs import Run

    run = Run(setting.config(0))
    run.train(4, partial(rate, setting))
    return run.losses


def test_scenes_say_what_was_measured(tool_of):
    tool = tool_of("schedules", "en")
    state = start_state(tool.controls)
    shown = tool.scene(tool.panels[1], state)
    ends = grid.finals(scene.chosen(state, "b"))
    assert f"{median(ends):.3f} ({min(ends):.3f} – {max(ends):.3f})" in shown["alt"]
    grips = [item["data-drag"] for item in shown["items"] if "data-drag" in item]
    assert grips == ["b_warmup"]
    wsd = tool.scene(tool.panels[0], state | {"a_kind": "wsd"})
    grips = {i["key"]: i for i in wsd["items"] if "data-drag" in i}
    assert set(grips) == {"warmup", "cooldown"}
    for name, at in (("warmup", 0), ("cooldown", 1)):  # a grip stands where its option does
        spots = [float(spot) for spot in grips[name]["data-spots"].split()]
        assert grips[name]["x"] + 5 == pytest.approx(spots[at], abs=0.2)


def test_final_losses_lie_within_the_axis_but_for_those_that_fell_too_soon():
    above = {key(s) for s in settings() if max(grid.finals(s)) > scene.HIGH}
    assert above == {"inverse-sqrt 0.001 0 0.1 0.0"}
    assert min(min(grid.finals(s)) for s in settings()) > scene.LOW


def test_wsd_ends_below_cosine_and_constant_at_the_rate_that_suits_all():
    """What the lesson says, seed by seed."""
    for warmup in grid.WARMUPS:
        wsd, cosine, constant = (
            grid.finals(Setting(kind, 0.003, warmup, 0.2, 0.0).plain())
            for kind in ("wsd", "cosine", "constant")
        )
        for ours, *others in zip(wsd, cosine, constant, strict=True):
            assert ours < min(others)
