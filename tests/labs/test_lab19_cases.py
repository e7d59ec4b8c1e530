"""Lab 19's faults hide none of the others, what the lab hands out is what its first cell writes,
and a script that hangs comes to its end and says where each rank waits."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from random import Random

import pytest
from answers import define, planted
from pairs import EVERYTHING

from lab_utils.course import check
from lab_utils.course.build_notebook import notebook
from lab_utils.course.build_source import read_source
from lab_utils.course.check import HOMES
from lab_utils.course.checks.exercise import exercises
from lab_utils.course.checks.lab19 import right, validation
from lab_utils.course.checks.lab19.common import TEXT, Case, loss, trained
from lab_utils.course.checks.lab19.script import RIGHT, Part, given
from lab_utils.course.checks.lab19.training import sent, shape
from lab_utils.course.checks.ranks import observe
from lab_utils.course.scripts.attempt import attempt

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
FOUND = "as it was found"
# a wrong value that is wrong in two ways: no rank has the mean of all any more
CONSEQUENCES = {"not-summed"}


def handed_out() -> dict[str, str]:
    """The cells of the lab by their names."""
    source = read_source(SOLUTIONS / "source/19_debugging.md", "solutions")
    lab = notebook(source, "en", True, "", [source])
    return {cell.id: cell.source for cell in lab.cells}


def parts(code: str) -> dict[str, str]:
    """The functions and classes of a cell or a script, however they are laid out."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {n.name: ast.unparse(n) for n in ast.parse(code).body if isinstance(n, kinds)}


def test_the_lab_hands_out_what_the_script_of_its_first_cell_does():
    cells, script = handed_out(), parts(given())
    for name in ("validate", "train-epoch", "prepare", "checkpoint", "train-mixed"):
        assert parts(cells[name]).items() <= script.items(), name
    assert "MENDED" not in "".join(cells.values())


def test_the_solution_is_what_checks_put_in_the_place_of_other_parts():
    right_ones = parts(RIGHT.read_text(encoding="utf-8"))
    for one in planted("19_debugging"):
        if one.title == "the solution":
            assert parts(one.cell).items() <= right_ones.items(), one.check


@pytest.mark.parametrize(
    ("check_name", "more"), [("train_epoch", 2), ("prepare", 2), ("resume", 6), ("train_mixed", 4)]
)
def test_as_it_was_found_one_fault_is_named_and_the_others_are_counted(check_name, more):
    exercise = getattr(check, check_name)
    found = [p for p in planted("19_debugging") if p.title == FOUND]
    [cell] = [p.cell for p in found if p.check == check_name]
    answer = define(cell, HOMES[check_name].answer, f"<as found: {check_name}>")
    failure = exercise.examine([answer], exercise.visible)[0]
    assert f"shows {more} more faults besides" in failure.came


@pytest.mark.skipif(not EVERYTHING, reason="tests/labs/test_labs.py runs them, too")
@pytest.mark.parametrize("exercise", exercises("lab19"), ids=lambda exercise: exercise.check)
def test_one_fault_that_is_left_fails_nothing_else(exercise):
    every = [one for one in planted("19_debugging") if one.check == exercise.check]
    left = [one for one in every if one.criterion and one.title != FOUND]
    outcomes = exercise.examine([one.answer for one in left], exercise.visible)
    for one, outcome in zip(left, outcomes, strict=True):
        alone = "besides" not in outcome.came or one.criterion in CONSEQUENCES
        assert alone, (one.title, outcome)


def test_the_page_says_what_the_script_does():
    """Four times the traffic, a rate of 0 just past a quarter, everything read by both ranks: as it
    is with the hang mended. (A restart: see `resume` as it was found.)"""
    validate = re.compile(r"^def validate\b.*?(?=^\S)", re.M | re.S)
    mended = validate.search(RIGHT.read_text(encoding="utf-8"))[0]
    text = validate.sub(lambda _: mended, given())
    own = Case(2, batch=8, accumulate=4, micro_batches=13)
    facts = observe(check.train_epoch.run, 2, [(Part(text), [own])])[0].complete(0)
    assert round(sent(own, facts[0]), 2) == 4.00
    rates = [update.rate for update in facts[0].updates]
    assert 0.25 <= next(n for n, rate in enumerate(rates) if not rate) / len(rates) < 0.3
    losses = [float(x) for _, x in validation.LINE.findall(facts[0].printed)]
    assert losses == sorted(losses, reverse=True)
    passes = [trained(one, own) for one in facts]
    assert [f.rows for f in passes[0]] == [f.rows for f in passes[1]]
    assert len(passes[0]) == own.epochs * 26


@pytest.mark.parametrize("seed", range(6))
def test_cases_show_what_they_are_there_for(seed):
    for case in (*check.train_epoch.visible, *check.train_epoch.draw(Random(seed))):
        full, last, _ = shape(case)
        assert full >= 2
        assert last < case.accumulate
    weights = right.torch.cat([p.detach().flatten() for p in right.Model(0.0).parameters()])
    for case in (*check.validate.visible, *check.validate.draw(Random(seed))):
        batches = [b for rank in range(case.ranks) for b in validation.held_out(case, rank)]
        of_batches = sum(loss(weights, b) for b in batches) / len(batches)
        truly = loss(weights, sorted(row for b in batches for row in b))
        assert abs(of_batches - truly) > 4 * validation.CLOSE


def test_windows_of_text_are_told_apart():
    rows = [tuple(row) for row in TEXT.tensors[0].tolist()]
    assert len(set(rows[:200])) == 200


@pytest.mark.timeout(300)
def test_a_script_that_hangs_is_ended_and_each_rank_says_where_it_waits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sketch.py").write_text(
        "import torch, torch.distributed as dist\n"
        'dist.init_process_group("gloo")\n'
        "def meet():\n"
        "    dist.all_reduce(torch.ones(1))\n"
        "if dist.get_rank() == 0:\n"
        "    meet()\n"
        "else:\n"
        "    dist.barrier()\n"
    )
    ended = attempt("sketch.py", 2)
    assert ended.status is None
    assert ended.waits[0] == ["<module> (sketch.py:6)", "meet (sketch.py:4)", "all_reduce"]
    assert ended.waits[1] == ["<module> (sketch.py:8)", "barrier"]
