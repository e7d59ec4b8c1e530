"""Optimizer race: the valley's rules are the published ones, the bytes are the estimator's, and the
scenes say what was recorded."""

from __future__ import annotations

import math

import pytest
import torch

from lab_utils import TrainConfig, estimate
from lab_utils.optimizers.lion import Lion
from lab_utils.optimizers.muon import Muon
from lab_utils.widgets.frame.units import percent
from lab_utils.widgets.optimizers import landscape, race_scene, valley_scene
from lab_utils.widgets.optimizers.costs import RANKS, bytes_of
from lab_utils.widgets.optimizers.recorded import BASE, NAMES, RATES, SEEDS, best, best_rate

# the same rules from torch and from lab_utils/optimizers
PUBLISHED = {
    "sgd": lambda w, lr: torch.optim.SGD(w, lr=lr),
    "momentum": lambda w, lr: torch.optim.SGD(w, lr=lr, momentum=0.9),
    "adam": lambda w, lr: torch.optim.Adam(w, lr=lr, betas=(0.9, 0.95)),
    "lion": lambda w, lr: Lion(w, lr=lr),
    "muon": lambda w, lr: Muon(w, lr=lr),
}


def published(rule: str, rate: float, mixed: bool) -> list[torch.Tensor]:
    """The weights before and after every step, by autograd and a real optimizer in fp64."""
    turn = torch.tensor(landscape.turned(mixed), dtype=torch.float64).view(2, 2)
    mean_squares = torch.tensor([landscape.LARGE, landscape.SMALL], dtype=torch.float64)
    covariance = turn @ torch.diag(mean_squares) @ turn.T
    start = torch.tensor(landscape.START, dtype=torch.float64).view(2, 2) @ turn.T
    weights = torch.nn.Parameter(start)
    optimizer = PUBLISHED[rule]([weights], rate)
    found = [weights.detach().clone()]
    for number in range(landscape.STEPS):
        optimizer.param_groups[0]["lr"] = rate * (1 - number / landscape.STEPS)
        optimizer.zero_grad()
        (torch.trace(weights @ covariance @ weights.T) / 2).backward()
        optimizer.step()
        found.append(weights.detach().clone())
    return found


@pytest.mark.parametrize("mixed", [False, True], ids=["straight", "mixed"])
@pytest.mark.parametrize("rule", landscape.RULES)
def test_the_valleys_rules_are_the_published_ones(rule, mixed):
    rate = valley_scene.VALLEY_RATES[rule][2]
    ours, theirs = list(landscape.descent(rule, rate, mixed)), published(rule, rate, mixed)
    assert len(ours) == len(theirs) == landscape.STEPS + 1
    for mine, their in zip(ours, theirs, strict=True):
        assert mine == pytest.approx(their.flatten().tolist(), abs=1e-6)


@pytest.mark.parametrize("mixed", [False, True], ids=["straight", "mixed"])
def test_the_loss_is_half_the_mean_square_of_the_outputs(mixed):
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(200_000, 2, generator=draw, dtype=torch.float64)
    inputs *= torch.tensor([landscape.LARGE, landscape.SMALL], dtype=torch.float64).sqrt()
    inputs = inputs @ torch.tensor(landscape.turned(mixed), dtype=torch.float64).view(2, 2).T
    weights = (0.3, -0.7, 0.2, 0.5)
    outputs = inputs @ torch.tensor(weights, dtype=torch.float64).view(2, 2).T
    expected = outputs.square().sum(1).mean().item() / 2
    assert landscape.loss(weights, mixed) == pytest.approx(expected, rel=0.02)


def ends(rule: str, mixed: bool) -> list[float]:
    levels = range(len(valley_scene.VALLEY_RATES[rule]))
    return [valley_scene.left(rule, level, mixed, landscape.STEPS) for level in levels]


@pytest.mark.parametrize("rule", ["sgd", "momentum", "muon"])
def test_what_takes_the_weights_as_a_matrix_does_not_see_how_inputs_are_turned(rule):
    # at Muon's largest rate rounding decides on which side it ends
    assert ends(rule, True)[:4] == pytest.approx(ends(rule, False)[:4], rel=0.1)


@pytest.mark.parametrize("rule", ["adam", "lion"])
def test_what_goes_weight_by_weight_loses_its_way_when_inputs_are_mixed(rule):
    assert min(ends(rule, True)) > 5 * min(ends(rule, False))
    assert min(ends(rule, True)) > 1e-3


def test_the_challenge_says_what_is_so():
    """At none of its rates does a rule that goes weight by weight, or plain SGD, get there."""
    good = {rule for rule in landscape.RULES if min(ends(rule, True)) <= 1e-3}
    assert good == {"momentum", "muon"}


@pytest.mark.parametrize("name", RATES)
def test_bytes_are_the_estimators(name):
    report = estimate(TrainConfig.of(**BASE, optimizer=name, dp=RANKS, zero=1))
    assert bytes_of(name).states == max(rank.memory["optimizer"] for rank in report.ranks)
    sent = [sum(item.wire_bytes for item in rank.traffic) for rank in report.ranks]
    assert bytes_of(name).sent == max(sent)


def test_bytes_of_a_parameter():
    each = {name: bytes_of(name).each for name in RATES}
    assert each["adamw"] == pytest.approx(8, rel=1e-6)
    assert each["sgd"] == each["lion"] == 4
    assert each["adam8bit"] == pytest.approx(2 + 8 / 256, rel=1e-3)
    assert 4 < each["muon"] < 4.6
    assert each["adafactor"] < 0.002


def test_the_best_rate_is_the_slider_at_its_end():
    for name in NAMES:
        assert race_scene.ends(name, race_scene.BEST) == best(name)
        assert race_scene.rate_of(name, RATES[name].index(best_rate(name))) == best_rate(name)


def race(a: str, b: str, rate: object = race_scene.BEST, axis: str = "steps") -> dict:
    return race_scene.scene(dict(a=a, b=b, rate=rate, axis=axis), "en")


def test_a_verdict_counts_seeds():
    first, second = race_scene.lower_in(dict(a="muon", b="adamw", rate=race_scene.BEST))
    assert (first, second) == (len(SEEDS), 0)
    assert race("muon", "adamw")["alt"].startswith("Muon ends lower than AdamW in all 3 seeds, by")
    assert race("adamw", "muon")["alt"].startswith("Muon ends lower than AdamW in all 3 seeds, by")
    assert race("adamw", "adamw")["alt"] == "AdamW alone."
    # what was destroyed is never lower
    assert race_scene.lower_in(dict(a="sgd", b="adamw", rate=4))[0] == 0


def test_a_dearer_step_makes_a_longer_curve_over_bytes_sent():
    def reach(side: str, axis: str) -> float:
        items = {item["key"]: item for item in race("adamw", "muon", axis=axis)["items"]}
        return float(items[f"curve-{side}0"]["d"].rsplit("L", 1)[1].split()[0])

    assert reach("a", "steps") == reach("b", "steps") == reach("a", "tokens")
    share = bytes_of("adamw").sent / bytes_of("muon").sent
    left = race_scene._LEFT
    assert (reach("a", "sent") - left) / (reach("b", "sent") - left) == pytest.approx(
        share, rel=0.01
    )


def test_every_optimizer_stands_over_the_bytes_that_it_keeps():
    items = {item["key"]: item for item in race("adamw", "muon", axis="kept")["items"]}
    places = {name: items[f"dot-{name}"]["cx"] for name in NAMES}
    assert places["adafactor"] < places["adam8bit"] < places["lion"] < places["adamw"]
    width = race_scene._RIGHT - race_scene._LEFT
    apart = (places["adamw"] - places["adam8bit"]) / width * math.log(1.7e5 / 7e3)
    ratio = bytes_of("adamw").states / bytes_of("adam8bit").states
    assert math.exp(apart) == pytest.approx(ratio, rel=0.01)


def test_the_valleys_scene_says_the_loss_of_the_step():
    state = dict(rule="momentum", level=3, mixed=True, step=60)
    share = valley_scene.left("momentum", 3, True, 60)
    assert f": {percent(share)} of the first loss" in valley_scene.scene(state, "en")["alt"]
    assert valley_scene.left("momentum", 3, True, 0) == 1


def test_a_bar_reaches_from_the_lowest_seed_to_the_highest():
    items = {item["key"]: item for item in race("lion", "adamw", rate=4)["items"]}
    bar, losses = items["end-a"], race_scene.ends("lion", 4)
    assert bar["y1"] == pytest.approx(race_scene._y(min(losses)), abs=0.1)
    assert bar["y2"] == pytest.approx(race_scene._y(max(losses)), abs=0.1)


def test_no_gap_is_named_where_one_side_has_no_loss():
    assert race("sgd", "lion", rate=4)["alt"] == "SGD is destroyed in all 3 seeds, Lion in none."
