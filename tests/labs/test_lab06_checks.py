"""Lab 06's checks against real ranks: every planted wrong answer fails for its own reason, every right one passes."""

from __future__ import annotations

import sys
from pathlib import Path

import cloudpickle
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import planted06  # noqa: E402

from lab_utils.course import check  # noqa: E402
from lab_utils.course.checks.lab06 import blocks, gradients, update  # noqa: E402
from lab_utils.course.hints import forget_attempts  # noqa: E402

cloudpickle.register_pickle_by_value(planted06)         # as a notebook's own code travels


@pytest.fixture(autouse=True)
def first_hints():
    forget_attempts()


@pytest.mark.parametrize(("name", "answer"), [pytest.param(n, a, id=a.__name__) for n, answers in planted06.RIGHT.items() for a in answers])
def test_right_answers_pass(name, answer):
    result = getattr(check, name)(answer)
    assert result.passed, result
    assert result.criterion is None


@pytest.mark.parametrize(("name", "answer", "criterion"), [pytest.param(n, a, c, id=a.__name__) for n, answers in planted06.WRONG.items() for a, c in answers])
def test_wrong_answers_fail_for_their_own_reason(name, answer, criterion):
    result = getattr(check, name)(answer)
    assert result.criterion == criterion, result
    assert result.failure.expected
    assert result.failure.came
    assert result.hint.number == 1


@pytest.mark.parametrize("exercise", [update, gradients, blocks])
def test_every_way_to_end_has_its_hints_in_both_languages(exercise):
    kinds = {"raised", "hung", "left", "mismatch", "only-axis", "never-waited", "value", "weights.old", "gradient.scale", "gradient.not-summed",
             "second-step", "traffic", *(case.criterion for case in exercise.VISIBLE if case.criterion)}
    assert kinds <= set(exercise.HINTS)
    assert all(en and zh and en != zh for ladder in exercise.HINTS.values() for en, zh in ladder)
