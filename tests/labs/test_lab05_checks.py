"""Lab 05's checks against real ranks: every planted wrong answer fails for its own reason, every right one passes."""

from __future__ import annotations

import sys
from pathlib import Path

import cloudpickle
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import planted05  # noqa: E402

from lab_utils.course import check  # noqa: E402
from lab_utils.course.hints import forget_attempts  # noqa: E402

cloudpickle.register_pickle_by_value(planted05)         # as a notebook's own code travels


@pytest.fixture(autouse=True)
def first_hints():
    forget_attempts()


@pytest.mark.parametrize(("name", "answer"), [pytest.param(n, a, id=a.__name__) for n, answers in planted05.RIGHT.items() for a in answers])
def test_right_answers_pass(name, answer):
    result = getattr(check, name)(answer)
    assert result.passed, result
    assert result.criterion is None


@pytest.mark.parametrize(("name", "answer", "criterion"), [pytest.param(n, a, c, id=a.__name__) for n, answers in planted05.WRONG.items() for a, c in answers])
def test_wrong_answers_fail_for_their_own_reason(name, answer, criterion):
    result = getattr(check, name)(answer)
    assert result.criterion == criterion, result
    assert result.failure.expected
    assert result.failure.came
    assert result.hint.number == 1
