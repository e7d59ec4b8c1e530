"""The hidden checks of lab 06: right answers pass on every seed, wrong ones fail for the same reasons as in the visible ones."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random

import pytest
from planted import NAMED, RIGHT

from lab_utils.course.checks.lab06 import blocks, gradients, update

HIDDEN = runpy.run_path(str(Path(__file__).resolve().parents[2] / "solutions/hidden/06_zero.py"))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_answers_pass_on_every_seed(seed):
    answers = {name: RIGHT[name.lower()][seed] for name in ("Zero1", "Zero2", "Zero3")}
    results = HIDDEN["run"](answers, seed)
    assert list(results) == list(answers)
    assert all(result.passed for result in results.values()), results


def test_wrong_answers_fail_and_missing_ones_are_none():
    results = HIDDEN["run"]({"Zero1": NAMED["Zero1Unsharded"], "Zero3": NAMED["Zero3SwapsTheData"]}, seed=4)
    assert results["Zero1"].criterion == "states.whole"
    assert results["Zero2"] is None
    assert results["Zero3"].criterion == "autograd.keeps"


@pytest.mark.parametrize(("name", "answer", "criterion"), [
    ("Zero1", "Zero1ShiftsTheRest", "padding"), ("Zero1", "Zero1CutsTheStates", "states.peak"),
    ("Zero2", "Zero2KeepsAView", "gradients.view"), ("Zero2", "Zero2AddsNorms", "norm"),
    ("Zero2", "Zero2LooksAtItsOwnInfinity", "overflow"), ("Zero3", "Zero3ReducesAtTheLast", "backward.peak"),
    ("Zero3", "Zero3GathersAllUpFront", "forward.peak"),
])  # fmt: skip
def test_wrong_answers_fail_on_random_models_too(name, answer, criterion):
    assert HIDDEN["run"]({name: NAMED[answer]}, seed=5)[name].criterion == criterion


def test_the_same_seed_draws_the_same_cases():
    for draw in ("update_cases", "gradient_cases", "block_cases"):
        assert HIDDEN[draw](Random(7)) == HIDDEN[draw](Random(7))
        assert HIDDEN[draw](Random(7)) != HIDDEN[draw](Random(8))


@pytest.mark.parametrize("seed", range(5))
def test_plain_cases_need_no_padding_and_padding_cases_do(seed):
    """Or a mistake in the padding would go by the name of another."""
    draw = Random(seed)
    drawn = {"update": HIDDEN["update_cases"](draw), "gradients": HIDDEN["gradient_cases"](draw), "blocks": HIDDEN["block_cases"](draw)}
    for exercise, cases in {"update": update.VISIBLE, "gradients": gradients.VISIBLE, "blocks": blocks.VISIBLE}.items():
        for case in (*cases, *drawn[exercise]):
            pieces = {"update": [case.numel], "gradients": [n for block in case.shapes for n in block], "blocks": [sum(b) for b in case.shapes]}[exercise]
            assert any(n % case.ranks for n in pieces) == (case.criterion in ("padding", "any-n")), case
