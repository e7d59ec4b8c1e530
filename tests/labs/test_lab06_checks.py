"""Lab 06's checks against real ranks beyond the planted answers: hints, languages, and what careless learners hand in."""

from __future__ import annotations

import pytest

from lab_utils.course.checks.lab06 import blocks, gradients, update


@pytest.mark.parametrize("exercise", [update, gradients, blocks])
def test_every_way_to_end_has_its_hints_in_both_languages(exercise):
    kinds = {"raised", "hung", "left", "mismatch", "only-axis", "never-waited", "value", "weights.old", "gradient.scale", "gradient.not-summed",
             "second-step", "traffic", *(case.criterion for case in exercise.VISIBLE if case.criterion)}
    assert kinds <= set(exercise.HINTS)
    assert all(en and zh and en != zh for ladder in exercise.HINTS.values() for en, zh in ladder)
