"""Planted answers of labs 05 and 06 through the grader: right ones earn every point, wrong ones
do not. All of them take ten minutes of two cores, so neither `make test` nor CI runs them:
LAB_EXHAUSTIVE=2 does. A sample runs each time; test_batch.py grades a whole lab 05.

Where the grader and the check differ, `OTHERWISE` says why.
"""

from __future__ import annotations

import os

import pytest
from classroom import OTHERWISE, STEMS, Planted, planted
from test_rooms import LACKS, nothing_left  # noqa: F401

from lab_utils.course.check import HOMES
from lab_utils.grade.crew import Crew
from lab_utils.grade.judges import judges_of
from lab_utils.grade.judges.judge import mark
from lab_utils.grade.one import BY_KERNEL
from lab_utils.grade.submission import Submission

pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
JUDGES = {judge.check: judge for lab in STEMS for judge in judges_of(lab)}


# by the planted answer's check and title: the criteria that it fails, and no others
SAMPLE = {
    ("chunk_bounds", "the remainder is dropped"): {"bounds", "few"},
    ("bucketed", "blocks in the hook"): {"order"},
    ("bucketed", "the sum stays a sum"): {"mean"},
    ("zero2", ".grad stays until the next step"): {"gradients"},
    ("zero3", "nothing is freed after forward"): {"forward", "backward"},
}


def chosen(check: str) -> list[Planted]:
    every = [p for p in planted(STEMS[HOMES[check].lab]) if p.check == check]
    return [p for p in every if p.title not in OTHERWISE]


def failed(one: Planted) -> set[str]:
    """The criteria that it fails."""
    program = Submission((one.given, one.cell), "en").program(HOMES[one.check].answer)
    with Crew(BY_KERNEL) as crew:
        marks = mark(JUDGES[one.check], program, crew, "planted")
    assert set(crew.missing) <= {"peak", "cgroup memory"}  # rights of root
    return {found.criterion.name for found in marks if found.failure}


@pytest.mark.parametrize(("check", "title"), SAMPLE, ids=lambda words: words.replace(" ", "-"))
def test_an_answer_fails_what_is_wrong_with_it_and_nothing_else(check, title):
    [one] = [p for p in chosen(check) if p.title == title]
    assert failed(one) == SAMPLE[check, title]


@pytest.mark.skipif(os.environ.get("LAB_EXHAUSTIVE") != "2", reason="LAB_EXHAUSTIVE=2 runs it")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", JUDGES)
def test_planted_answers_earn_what_they_should(check):
    every = {one.title: (one, failed(one)) for one in chosen(check)}
    surprises = {t: bad for t, (one, bad) in every.items() if bool(bad) is (one.criterion is None)}
    assert not surprises


def test_the_same_seed_draws_the_same_calls():
    from random import Random

    for judge in JUDGES.values():
        drawn = [list(judge.draw(Random(seed))) for seed in (1, 1, *range(2, 200))]
        assert drawn[0] == drawn[1] != drawn[2]
        named = {criterion.name for criterion in judge.criteria}
        for calls in drawn:
            assert {name for call in calls for name in judge.shows(call)} == named
        for call in drawn[0]:
            assert call.ranks in (1, 3, 4)
            assert str(call)
