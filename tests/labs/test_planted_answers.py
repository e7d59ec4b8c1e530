"""Every planted wrong answer of every lab fails for its own reason, every right one passes."""

from __future__ import annotations

import planted
import pytest

from lab_utils.course import check


@pytest.mark.parametrize(("name", "answer"), [pytest.param(name, answer, id=f"{name}-{answer.__name__}")
                                              for name, answers in planted.RIGHT.items() for answer in answers])
def test_right_answers_pass(name, answer):
    result = getattr(check, name)(answer)
    assert result.passed, result
    assert result.criterion is None


@pytest.mark.parametrize(("name", "answer", "criterion"), [pytest.param(name, *wrong, id=f"{name}-{wrong[0].__name__}")
                                                           for name, answers in planted.WRONG.items() for wrong in answers])
def test_wrong_answers_fail_for_their_own_reason(name, answer, criterion):
    result = getattr(check, name)(answer)
    assert result.criterion == criterion, result
    assert result.failure.expected
    assert result.failure.came
    assert result.hint.number == 1
