"""Every planted wrong answer of every lab fails for its own reason, every right one passes."""

from __future__ import annotations

import planted03
import planted05
import planted06
import pytest

from lab_utils.course import check

LABS = (planted03, planted05, planted06)


def planted(kind: str) -> list:
    """(name of the check, answer …) of every lab, as pytest's parameters."""
    found = []
    for lab in LABS:
        for name, answers in getattr(lab, kind).items():
            for entry in answers:
                answer, *criterion = entry if isinstance(entry, tuple) else (entry,)
                found.append(pytest.param(name, answer, *criterion, id=f"{lab.__name__[-2:]}-{answer.__name__}"))
    return found


@pytest.mark.parametrize(("name", "answer"), planted("RIGHT"))
def test_right_answers_pass(name, answer):
    result = getattr(check, name)(answer)
    assert result.passed, result
    assert result.criterion is None


@pytest.mark.parametrize(("name", "answer", "criterion"), planted("WRONG"))
def test_wrong_answers_fail_for_their_own_reason(name, answer, criterion):
    result = getattr(check, name)(answer)
    assert result.criterion == criterion, result
    assert result.failure.expected
    assert result.failure.came
    assert result.hint.number == 1
