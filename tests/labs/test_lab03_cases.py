"""Lab 03's cases show what they are there for, and the best plan is the best of all that can be
carried out."""

from __future__ import annotations

from random import Random

import pytest

from lab_utils.course.checks.lab03 import accumulation, plans
from lab_utils.course.checks.lab03.plans_run import (
    carry_out,
    costs,
    every_plan,
    expected_peak,
    frontier,
)


def test_peaks_of_all_plans_are_what_was_expected():
    """The best plan is searched for by a formula: here each of 233 plans is carried out, and bytes
    and FLOPs are equal."""
    model = plans.UNEVEN
    layers, measured = costs(model), []
    for plan in every_plan(0, len(layers)):
        cost = carry_out(model, plan)
        measured.append((cost.peak, cost.recomputed_flops))
        assert cost.peak == expected_peak(layers, plan), plan
        assert cost.recomputed_flops == sum(
            layer.flops for begin, end in plan for layer in layers[begin:end]
        )
    for budget in {case.budget for case in plans.EXERCISE.visible if case.model == model}:
        fitting = [flops for peak, flops in measured if peak <= budget]
        found = [flops for peak, flops, _ in frontier(model) if peak <= budget]
        assert min(fitting, default=None) == min(found, default=None)


@pytest.mark.parametrize("seed", range(5))
def test_cases_show_what_they_are_there_for(seed):
    """Or a general mistake would go by the name of a special one, or a budget would ask for
    nothing."""
    full, partial, *_ = accumulation.draw(Random(seed))
    assert len(full.counts) % full.group == 0 < len(partial.counts) % partial.group
    assert all(min(case.counts) > 0 for case in (full, partial))
    *budgeted, no_need, nothing_fits = plans.draw(Random(seed))
    for case in budgeted:
        peaks = [peak for peak, _, _ in frontier(case.model)]
        assert peaks[0] <= case.budget < peaks[-1]
    assert frontier(no_need.model)[-1][0] == no_need.budget
    assert nothing_fits.budget < frontier(nothing_fits.model)[0][0]
