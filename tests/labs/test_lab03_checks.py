"""Lab 03's checks at work beyond the planted answers: hints, languages, and what careless learners hand in."""

from __future__ import annotations

import pytest
from planted import NAMED, WRONG

from lab_utils import i18n
from lab_utils.course import check
from lab_utils.course.build_rules import typography
from lab_utils.course.checks.lab03 import accumulation, plans, segments
from lab_utils.course.checks.lab03.plans_run import carry_out, costs, every_plan, expected_peak, frontier


@pytest.mark.parametrize(("name", "answer"), [
    ("accumulate", "means_of_means"), ("accumulate", "indexes_past_the_end"), ("checkpoint", "NoReplay"),
    ("checkpoint", "TorchsOwn"), ("checkpoint", "ReturnsNothing"), ("plan_checkpoints", "one_segment"),
    ("plan_checkpoints", "overlapping"), ("accumulate", "accumulate"), ("checkpoint", "Segment"),
    ("plan_checkpoints", "plan_by_trying_all"),
])  # fmt: skip
def test_verdicts_are_in_chinese_too(name, answer, monkeypatch):
    monkeypatch.setattr(i18n, "_chosen", "zh")
    result = getattr(check, name)(NAMED[answer])
    for words in (*result.failure[1:], result.hint.text) if result.failure else (result.measured.table[0][1], *result.measured.lines):
        assert any("\u4e00" <= c <= "\u9fff" for c in words), words
    assert not list(typography(repr(result)))


@pytest.mark.parametrize("exercise", [accumulation, segments, plans])
def test_every_way_to_end_has_its_hints_in_both_languages(exercise):
    kinds = {"raised", "hung", *(case.criterion for case in exercise.VISIBLE if case.criterion)}
    assert kinds <= set(exercise.HINTS)
    assert all(en and zh and en != zh for ladder in exercise.HINTS.values() for en, zh in ladder)
    assert not [wrong for ladder in exercise.HINTS.values() for _, zh in ladder for wrong in typography(zh)]


def test_every_hint_has_a_planted_answer():
    for name, exercise in {"accumulate": accumulation, "checkpoint": segments, "plan_checkpoints": plans}.items():
        planted = {criterion for _, criterion in WRONG[name]}
        assert set(exercise.HINTS) - planted <= {"hung", "gradient"}, name


def test_peaks_of_all_plans_are_what_was_expected():
    """The best plan is searched for by a formula: here each of 233 plans is carried out, and bytes and FLOPs are equal."""
    model = plans.UNEVEN
    layers, measured = costs(model), []
    for plan in every_plan(0, len(layers)):
        cost = carry_out(model, plan)
        measured.append((cost.peak, cost.recomputed_flops))
        assert cost.peak == expected_peak(layers, plan), plan
        assert cost.recomputed_flops == sum(layer.flops for begin, end in plan for layer in layers[begin:end])
    for budget in {case.budget for case in plans.VISIBLE if case.model == model}:
        fitting = [flops for peak, flops in measured if peak <= budget]
        found = [flops for peak, flops, _ in frontier(model) if peak <= budget]
        assert min(fitting, default=None) == min(found, default=None)
