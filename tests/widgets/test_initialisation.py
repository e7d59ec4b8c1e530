"""Signal through depth: what the tool shows was measured on this model, and says so."""

import pytest

from lab_utils.course.stability.tool_recorded import network as measure
from lab_utils.course.stability.tool_recorded import slopes as measure_slopes
from lab_utils.widgets.initialisation import depth_scene, rules_scene
from lab_utils.widgets.initialisation.costs import RULES, growth, network, slopes

SAMPLE = [
    (4, 64, "xavier", "pre", "gelu"),
    (16, 64, "he", "post", "swiglu"),
    (16, 64, "mup", "none", "gelu"),
    (4, 256, "gpt2", "pre", "gelu"),
]


@pytest.mark.parametrize("shape", SAMPLE, ids=str)
def test_a_recorded_network_is_one_of_today(shape):
    now = measure(*shape)
    for name, values in network(*shape).items():
        assert now[name] == pytest.approx(values, rel=0.02), name


def test_recorded_slopes_are_those_of_today():
    rules = ("hidden_init", "head_rate")
    assert measure_slopes(rules) == pytest.approx(slopes(rules), abs=0.1)


def test_growth_sees_numbers_that_are_none():
    assert growth([1.0, 4.0, 2.0]) == 4
    assert growth([1.0, None]) == float("inf")


def test_the_missing_rule_shows_where_it_acts():
    every = slopes(RULES)
    assert max(every.values()) <= rules_scene.LEVEL
    assert slopes([r for r in RULES if r != "head_init"])["first"] > 0.4
    assert slopes([r for r in RULES if r != "hidden_rate"])["stream"] > 0.9
    assert slopes([r for r in RULES if r != "head_rate"])["logits"] > 0.6


def test_scenes_say_what_was_measured():
    state = dict(depth=32, width=64, init="he", norm="none", activation="swiglu")
    assert "leaves the range" in depth_scene.scene(state, "en")["alt"]
    words = rules_scene.scene(dict.fromkeys(RULES, False), "en")["alt"]
    assert words == "the MLP's output: width^1.44"
