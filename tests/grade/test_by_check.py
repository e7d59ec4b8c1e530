"""Labs that are judged by their own checks, inside a room or outside it: the solution and a sample
of planted answers come to the same verdict as in the notebook. They take a quarter of an hour, so
neither `make test` nor CI runs them: LAB_EXHAUSTIVE=2 does.

An answer which a check lets pass outside and not in a room, or the other way round, would be in
`OTHERWISE`, with the reason.
"""

from __future__ import annotations

import pytest
from classroom import STEMS, Planted, labs, planted
from pairs import EVERYTHING, EXHAUSTIVE
from test_rooms import LACKS, nothing_left  # noqa: F401

from lab_utils.course import check as exercises
from lab_utils.course.check import HOMES
from lab_utils.grade.crew import HIDDEN, Crew
from lab_utils.grade.judges import judges_of
from lab_utils.grade.judges.judge import mark
from lab_utils.grade.one import BY_CHECK, BY_KERNEL
from lab_utils.grade.submission import Submission

pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
SAMPLE = 4  # wrong and right ones of each exercise, besides the solution
SAME = {"left": "hung"}  # whoever carries the messages does not tell these apart
OTHERWISE: dict[str, str] = {}
OTHERS = sorted(set(labs()) - set(STEMS.values()))
CHECKS = [check for lab in OTHERS for check in dict.fromkeys(p.check for p in planted(lab))]
OUTSIDE = {name for name in CHECKS if getattr(exercises, name).ask} | {"global_norm"}
STEM = {p.check: lab for lab in OTHERS for p in planted(lab)}


def sample(check: str) -> list[Planted]:
    """The solution and others, evenly chosen."""
    every = [p for p in planted(STEM[check]) if p.check == check]
    rest = [p for p in every[1:] if p.title not in OTHERWISE]
    return [every[0], *(rest[n * len(rest) // SAMPLE] for n in range(min(SAMPLE, len(rest))))]


def verdict(one: Planted) -> str | None:
    """The criterion by which it fails the visible cases in a room; None: it passes."""
    [judge] = [j for j in judges_of(HOMES[one.check].lab) if j.check == one.check]
    program = Submission((one.given, one.cell), "en").program(judge.answer)
    limits, hidden = (BY_CHECK, ()) if judge.advisory else (BY_KERNEL, HIDDEN)
    with Crew(limits, hidden) as crew:
        visible, hidden = mark(judge, program, crew, "planted")
    if one.criterion is None:  # a wrong one need not fail every seed's cases
        assert hidden.failure is None, (one.title, hidden.failure)
    return visible.failure and visible.failure.criterion


def meant(one: Planted) -> str | None:
    """The criterion that the planted answer fails, as the grader calls it."""
    return SAME.get(one.criterion, one.criterion)


@pytest.mark.skipif(not EVERYTHING, reason="LAB_EXHAUSTIVE=2 runs it")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("check", CHECKS)
def test_the_verdict_is_that_of_the_check(check):
    found = {one.title: (meant(one), verdict(one)) for one in sample(check)}
    assert {t: both for t, both in found.items() if both[0] != both[1]} == {}


@pytest.mark.skipif(not EXHAUSTIVE, reason="make test-all runs it")
@pytest.mark.timeout(300)
def test_eight_ranks_with_all_their_groups_have_room():
    assert verdict(sample("make_groups")[0]) is None


def test_every_other_lab_has_its_checks_here():
    homes = {home.lab for home in HOMES.values()} - {"lab05", "lab06"}
    assert {HOMES[check].lab for check in CHECKS} == homes
    for check in CHECKS:
        [judge] = [j for j in judges_of(HOMES[check].lab) if j.check == check]
        assert bool(judge.advisory) is (check not in OUTSIDE)
