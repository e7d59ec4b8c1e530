"""The hidden checks of lab 03: right answers pass on every seed, wrong ones fail for the same reasons as in the visible ones."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random

import pytest
from planted import NAMED, RIGHT

from lab_utils.course.checks.lab03.plans_run import frontier

HIDDEN = runpy.run_path(str(Path(__file__).resolve().parents[2] / "solutions/hidden/03_memory.py"))
VISIBLE = {"accumulate": "accumulate", "Segment": "checkpoint", "plan_checkpoints": "plan_checkpoints"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_right_answers_pass_on_every_seed(seed):
    answers = {name: RIGHT[visible][seed] for name, visible in VISIBLE.items()}
    results = HIDDEN["run"](answers, seed)
    assert list(results) == list(answers)
    assert all(result.passed for result in results.values()), results


def test_wrong_answers_fail_and_missing_ones_are_none():
    results = HIDDEN["run"]({"accumulate": NAMED["means_of_means"], "Segment": NAMED["ForgetsTheParameters"]}, seed=4)
    assert results["accumulate"].criterion == "gradient.mean-of-means"
    assert results["Segment"].criterion == "gradient.parameters"
    assert results["plan_checkpoints"] is None


@pytest.mark.parametrize(("name", "answer", "criterion"), [
    ("accumulate", "steps_only_when_full", "steps.last-group"), ("accumulate", "weighted_but_divides_by_zero", "empty"),
    ("accumulate", "one_backward_for_the_group", "memory"), ("accumulate", "divides_a_partial_group_by_the_full_one", "any-group"),
    ("Segment", "NoReplay", "rng.second-run"), ("Segment", "LeavesItRewound", "rng.left"), ("Segment", "NoCheckpoint", "saved"),
    ("Segment", "NeedsAnInputGradient", "input-without-gradient"), ("Segment", "KeepsBoth", "keep-as"),
    ("Segment", "KeepsOneStateForAll", "nested"), ("plan_checkpoints", "one_segment", "peak.backward"),
    ("plan_checkpoints", "only_the_end_of_forward", "peak.backward"), ("plan_checkpoints", "always_something", "no-need"),
    ("plan_checkpoints", "the_least_bad", "nothing-fits"), ("plan_checkpoints", "smallest_peak", "flops"),
])  # fmt: skip
@pytest.mark.parametrize("seed", [5, 6])
def test_wrong_answers_fail_on_random_cases_too(name, answer, criterion, seed):
    assert HIDDEN["run"]({name: NAMED[answer]}, seed)[name].criterion == criterion


def test_the_same_seed_draws_the_same_cases():
    for draw in ("accumulation_cases", "segment_cases", "plan_cases"):
        assert HIDDEN[draw](Random(7)) == HIDDEN[draw](Random(7))
        assert HIDDEN[draw](Random(7)) != HIDDEN[draw](Random(8))


@pytest.mark.parametrize("seed", range(5))
def test_cases_show_what_they_are_there_for(seed):
    """Or a general mistake would go by the name of a special one, or a budget would ask for nothing."""
    full, partial, *_ = HIDDEN["accumulation_cases"](Random(seed))
    assert len(full.counts) % full.group == 0 < len(partial.counts) % partial.group
    assert all(min(case.counts) > 0 for case in (full, partial))
    *budgeted, no_need, nothing_fits = HIDDEN["plan_cases"](Random(seed))
    for case in budgeted:
        peaks = [peak for peak, _, _ in frontier(case.model)]
        assert peaks[0] <= case.budget < peaks[-1]
    assert frontier(no_need.model)[-1][0] == no_need.budget
    assert nothing_fits.budget < frontier(nothing_fits.model)[0][0]
