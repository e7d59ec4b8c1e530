"""What an answer imports from the package that its notebook did not hand out."""

from __future__ import annotations

import pytest
from classroom import labs, planted

from lab_utils.course.check import HOMES
from lab_utils.grade.borrowed import borrowed
from lab_utils.grade.submission import Submission, handed_out

GIVEN = ["from lab_utils import check, t\nfrom lab_utils.parallel.comm import Axis"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import torch\nfrom lab_utils import t", []),
        ("from lab_utils.parallel.comm import Axis as A", []),
        (
            "def f():\n    from lab_utils.layout.schedule import make_schedule",
            ["lab_utils.layout.schedule.make_schedule"],
        ),
        ("import lab_utils.parallel.comm as c", ["lab_utils.parallel.comm"]),
        ("%magic\nfrom lab_utils import x", []),
    ],
)
def test_only_what_the_notebook_lacks(source, found):
    assert borrowed(source, [*GIVEN, "%matplotlib inline"]) == found


def test_solutions_borrow_nothing_and_the_engines_own_classes_are_named():
    found = {}
    for one in (one for lab in labs() for one in planted(lab)):
        home = HOMES[one.check]
        given = handed_out(home.lab)
        program = Submission((one.given, one.cell), "en", given).program(home.answer)
        if names := borrowed(program.source, given):
            found[one.check, one.title] = names
    assert found.pop(("mend", "two arguments for three")) == ["lab_utils.t"]
    assert found == {
        ("bucketed", "the engine of the lesson"): ["lab_utils.parallel.data_parallel.BucketedSync"],
        ("lion", "this package's Lion, with decay in front"): ["lab_utils.optimizers.lion.Lion"],
    }
