"""A criterion of more than one point and a blocked one, in every table and on the page."""

from __future__ import annotations

import csv
import json
from types import SimpleNamespace

from lab_utils.grade import pages, tables
from lab_utils.grade.crew import Crew
from lab_utils.grade.judges.judge import Criterion, Judge, mark
from lab_utils.grade.limits import Limits
from lab_utils.grade.one import points
from lab_utils.grade.submission import Program

WORTH = [("value", 3, True), ("speed", 2, None), ("empty", 1, False)]
RECORD = dict(
    student="Ada",
    file="Ada.ipynb",
    language="en",
    trouble=None,
    advisory=[],
    seconds=1.0,
    exercises=[
        dict(
            check="double",
            answer="double",
            source="",
            borrowed=[],
            advisory=None,
            criteria=[
                dict(
                    name=name,
                    en=name,
                    zh=name,
                    points=worth,
                    passed=passed,
                    failure=dict(criterion="value", expected="2", came="3", case="")
                    if passed is False
                    else None,
                )
                for name, worth, passed in WORTH
            ],
        )
    ],
)


def test_what_is_blocked_is_neither_passed_nor_failed_anywhere():
    assert points(RECORD) == (3, 4)
    [row] = csv.DictReader(tables.grades([RECORD]).splitlines())
    assert [row[f"double: {name}"] for name, *_ in WORTH] == ["3", "blocked", "0"]
    assert (row["points"], row["of"]) == ("3", "4")
    canvas = list(csv.reader(tables.canvas([RECORD], "lab98").splitlines()))
    assert [line[-1] for line in canvas] == ["lab98", "4", "3"]
    [moodle] = csv.DictReader(tables.moodle([RECORD]).splitlines())
    assert moodle["Grade"] == "3"
    assert "needs a GPU" in moodle["Feedback comments"]
    tests = json.loads(tables.gradescope(RECORD))["tests"]
    assert [(one["score"], one["max_score"]) for one in tests] == [(3, 3), (0, 0), (0, 1)]
    assert "needs a GPU" in tests[1]["output"]
    page = pages.feedback(RECORD)
    assert "3 of 4 points" in page
    assert "blocked" in page
    assert "0 / 0" in pages.summary([RECORD], "lab98", [])


def test_a_call_that_shows_only_blocked_criteria_is_not_made():
    def examine(call, seats, random):
        raise AssertionError("nobody can make it")

    speed = Criterion("speed", "fast", "快", points=2, needs_gpu=True)
    calls = [SimpleNamespace(ranks=1)]
    judge = Judge("double", "double", [speed], lambda _: calls, examine, lambda _: ["speed"])
    [found] = mark(judge, Program("double = 2"), Crew(Limits()), "seed")
    assert found.passed is None
