"""The 3D planner's commands run, or it says why they cannot."""

from __future__ import annotations

import shlex
import subprocess
import sys
from itertools import product

import pytest

from lab_utils.exports import FRAMEWORKS
from lab_utils.widgets.three_d import command_scene, costs, words

LAYOUT = {"site": "h100-64", "model": "llama3-70b", "share": 8, "tp": 8, "pp": 2, "zero": 1}


def run(command: str) -> str:
    """What a printed command prints; it must succeed."""
    python, *rest = shlex.split(command)
    assert python == "python"
    done = subprocess.run([sys.executable, *rest], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, {"megatron": "--pipeline-model-parallel-size 2"}),
        (
            {"tp": 1, "pp": 1, "zero": 3},
            {
                "megatron": "optim_grads_params",
                "torchtitan": "data-parallel-shard-degree 64",
                "deepspeed": '"stage": 3',
            },
        ),
    ],
)
def test_an_export_runs_or_says_why_not(changes, wanted):
    state = LAYOUT | changes
    cost = costs.cost_of(state)
    for framework in FRAMEWORKS:
        why = command_scene.refusal(state, cost, framework, "en")
        assert (why is None) == (framework in wanted)
        if why is None:
            assert wanted[framework] in run(command_scene.export_command(state, cost, framework))
        else:
            assert why in " ".join(command_scene_words(state, "en"))


def command_scene_words(state: dict, lang: str) -> list[str]:
    """What stands in the panel of commands."""
    return [item["text"] for item in command_scene.scene(state, lang)["items"]]


def test_refusals_speak_the_tools_language():
    cost = costs.cost_of(LAYOUT)
    assert "用" in command_scene.refusal(LAYOUT, cost, "torchtitan", "zh")
    assert command_scene.refusal(LAYOUT, cost, "torchtitan", "en").isascii()


def test_the_small_run_trains():
    said = run(command_scene.small_command(costs.cost_of(LAYOUT | {"tp": 1})))
    assert "4 rank(s)" in said


def test_a_sentence_in_lines_loses_nothing():
    for lang, state in product(("en", "zh"), ({}, {"tp": 16})):
        told = command_scene.refusal(LAYOUT | state, costs.cost_of(LAYOUT), "deepspeed", lang)
        parts = words.lines(told, 60)
        assert "".join(parts).replace(" ", "") == told.replace(" ", "")
        assert len(parts) > 1
