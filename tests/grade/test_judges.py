"""Planted answers of labs 05 and 06 through the grader: right ones earn every point, wrong ones
do not. They take half an hour, so neither `make test` nor CI runs them: LAB_EXHAUSTIVE=2 does.
test_batch.py grades a whole lab 05 each time.

Where the grader and the check differ, `OTHERWISE` says why.
"""

from __future__ import annotations

import os

import pytest
from classroom import OTHERWISE, STEMS, planted
from test_rooms import LACKS, nothing_left  # noqa: F401

from lab_utils.course.check import HOMES
from lab_utils.grade.crew import Crew
from lab_utils.grade.judges import judges_of
from lab_utils.grade.judges.judge import mark
from lab_utils.grade.limits import Limits
from lab_utils.grade.one import BY_KERNEL
from lab_utils.grade.submission import Submission

pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
JUDGES = {judge.check: judge for lab in STEMS for judge in judges_of(lab)}


def chosen(check: str) -> list:
    every = [p for p in planted(STEMS[HOMES[check].lab]) if p.check == check]
    return [p for p in every if p.title not in OTHERWISE]


@pytest.mark.skipif(os.environ.get("LAB_EXHAUSTIVE") != "2", reason="LAB_EXHAUSTIVE=2 runs it")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("check", JUDGES)
def test_planted_answers_earn_what_they_should(check):
    surprises = {}
    with Crew(Limits(wall_s=1500, **BY_KERNEL)) as crew:
        for one in chosen(check):
            program = Submission((one.given, one.cell), "en").program(HOMES[check].answer)
            marks = mark(JUDGES[check], program, crew, "planted")
            failed = [m for m in marks if m.failure]
            if bool(failed) is (one.criterion is None):
                surprises[one.title] = failed
        assert not crew.missing
    assert not surprises


def test_the_same_seed_draws_the_same_calls():
    from random import Random

    for judge in JUDGES.values():
        drawn = [list(judge.draw(Random(seed))) for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1] != drawn[2]
        named = {criterion.name for criterion in judge.criteria}
        assert {name for call in drawn[0] for name in judge.shows(call)} == named
        for call in drawn[0]:
            assert call.ranks in (1, 3, 4)
            assert str(call)
