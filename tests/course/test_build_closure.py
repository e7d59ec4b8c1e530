"""What a notebook depends on, by its imports: which change makes which notebook stale."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from lab_utils.course.build import read_all
from lab_utils.course.build_closure import closure
from lab_utils.course.build_source import Source, code_for, is_question, questions_of

REPOSITORY = Path(__file__).resolve().parents[2]


def test_functions_and_parents_are_followed_and_types_are_not():
    found = closure(["def on_rank():\n    from lab_utils.parallel.mesh import Mesh\n"])
    assert {"lab_utils/parallel/mesh.py", "lab_utils/parallel/__init__.py"} <= found.keys()
    # figures names measure.curve under TYPE_CHECKING alone
    found = closure(["from lab_utils.course.figures import curves_figure"])
    assert "lab_utils/course/figures.py" in found
    assert "lab_utils/measure/curve.py" not in found


@pytest.mark.parametrize(
    "code",
    [
        ["from lab_utils import estimate"],
        ["import lab_utils", "lab_utils.estimate"],
        ["import lab_utils as all_of_it", "all_of_it.estimate"],
        ["from lab_utils import *"],
    ],
)
def test_a_lazy_name_leads_to_its_module(code):
    assert "lab_utils/estimate/__init__.py" in closure(code)
    assert "lab_utils/estimate/__init__.py" not in closure(["import lab_utils"])


def labs_in(code: list[str]) -> set[str]:
    return {path.split("/")[3] for path in closure(code) if "/checks/lab" in path}


def test_a_check_leads_to_its_own_lab():
    assert labs_in(["from lab_utils import check", "check.bucketed(3)"]) == {"lab05"}
    assert labs_in(["from lab_utils.course.check import zero1"]) == {"lab06"}
    assert labs_in(["from lab_utils import check"]) == set()
    # who hands the module about may ask it for anything
    handed_about = labs_in(
        ["from lab_utils import check", "for name in 'ab': getattr(check, name)"]
    )
    assert handed_about >= {"lab03", "lab05", "lab06"}


def test_what_the_fork_server_preloads_and_data_files_count():
    assert "lab_utils/launch/preload.py" in closure(["from lab_utils import launch"])
    found = closure(["from lab_utils.widgets import zero"])
    assert "lab_utils/widgets/frame/explorer.js" in found
    assert "lab_utils/widgets/memory_anatomy/tool.py" not in found
    asked = closure(['from lab_utils import ask\nask("05-ring")'])
    held = {path for path in asked if path.startswith("lab_utils/course/questions/0")}
    assert held == {"lab_utils/course/questions/05_data_parallelism.json"}


def code_of(source: Source) -> list[str]:
    """The code of a source's English page, questions by their ids."""
    cells = [cell for cell in source.cells if cell.cell_type == "code"]
    return ["from lab_utils.course import begin, todo"] + [
        f"ask({', '.join(repr(q.id) for q in questions_of(source, cell))})".replace("'", '"')
        if is_question(cell)
        else code_for(source, cell, "en", lab=False)
        for cell in cells
    ]


@functools.cache
def closures() -> dict[str, set[str]]:
    """Files that each notebook of this repository depends on; "lesson 05", "solution 05"."""
    return {
        f"{source.room[:-1]} {source.name[:2]}": set(closure(code_of(source)))
        for source in read_all(REPOSITORY)
    }


LABS = "01", "03", "04", "05", "06", "07", "08", "09", "11", "12", "13"
LESSONS = {f"lesson {n}" for n in ("00", *LABS)}
SOLUTIONS = {f"solution {n}" for n in LABS}
WITHOUT_TRAINING = {
    "solution 01",
    "solution 03",
    "solution 04",
    "solution 07",
    "solution 11",
    "solution 12",
    "solution 13",
}  # they do not call `train`


@pytest.mark.parametrize(
    ("touched", "stale"),
    [
        ("lab_utils/course/checks/lab06/*hints*", {"solution 06"}),
        ("lab_utils/course/checks/lab05/*.py", {"solution 05"}),
        ("lab_utils/course/checks/ranks.py", SOLUTIONS | {"solution 19"}),
        ("lab_utils/widgets/zero/tool.py", {"lesson 06"}),
        ("lab_utils/widgets/data_parallelism/ladder.py", {"lesson 05"}),
        ("lab_utils/course/questions/03_memory.json", {"lesson 03"}),
        # train asks the estimate whether a run fits this machine
        ("lab_utils/estimate/time/step.py", LESSONS | SOLUTIONS - WITHOUT_TRAINING),
        (
            "lab_utils/parallel/zero.py",
            LESSONS | {f"solution {n}" for n in ("01", "05", "06", "09")},
        ),
        ("lab_utils/model.py", LESSONS | SOLUTIONS - {"solution 08", "solution 11", "solution 12"}),
        ("lab_utils/course/build_outputs.py", LESSONS | SOLUTIONS | {"solution 19"}),
        ("lab_utils/course/build*_r*.py", set()),
        ("lab_utils/doctor.py", set()),
        ("lab_utils/bench/rows.py", set()),
        # the bottleneck tool says whether a job fits
        ("lab_utils/estimate/plan/search.py", {"lesson 01", "lesson 09", "solution 09"}),
    ],
)
def test_touching_a_file_makes_these_stale(touched, stale):
    files = [path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob(touched)]
    assert files
    found = {name for name, held in closures().items() if held & {*files}}
    assert found == stale
