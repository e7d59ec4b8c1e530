"""Every lab by its declarations: right answers pass, each planted wrong one fails by its own
criterion, on the visible cases and on hidden ones, and says so in both languages.

`make test` hands in every solution, and of the last lab another right answer and a wrong one for
every third criterion; `make test-all`, and so CI, all of them, and on hidden cases, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from answers import Planted, labs, planted
from pairs import EXHAUSTIVE

from lab_utils import i18n
from lab_utils.course import check
from lab_utils.course.build_rules import typography
from lab_utils.course.check import HOMES
from lab_utils.course.checks.exercise import Exercise, exercises, run_hidden
from lab_utils.course.checks.lab05 import chunks
from lab_utils.course.checks.verdict import Failure

AT_ONCE = 16  # answers examined together
PATIENCE_ON_A_BUSY_MACHINE_S = 60.0
EXERCISES = [exercise for lab in labs() for exercise in exercises(f"lab{lab[:2]}")]
LAST = EXERCISES[-1].lab
WAYS_TO_END = {"raised", "hung", "left", "mismatch"}


def answers_to(exercise: Exercise) -> list[Planted]:
    return [p for lab in labs() for p in planted(lab) if p.check == exercise.check]


def handed_in(exercise: Exercise) -> list[Planted]:
    """Of a criterion the last that was planted: the later, the harder to catch."""
    every = answers_to(exercise)
    if EXHAUSTIVE:
        return every
    right = [one for one in every if one.criterion is None]
    if exercise.lab != LAST:
        return right[:1]
    last = {one.criterion: one for one in every if one.criterion}
    return [*right[:2], *list(last.values())[::3]]


def batches() -> Iterator[pytest.param]:
    for exercise in EXERCISES:
        every = handed_in(exercise)
        for number, begin in enumerate(range(0, len(every), AT_ONCE)):
            name = f"{exercise.check}-{number}"
            yield pytest.param(exercise, every[begin : begin + AT_ONCE], number, id=name)


@pytest.mark.parametrize(("exercise", "batch", "number"), [*batches()])
def test_each_answer_is_judged_by_its_own_criterion(exercise, batch, number, monkeypatch):
    """Together at first; whoever is not judged as expected then is judged alone, as a learner's is,
    with the time that an answer takes which asks without end on a machine that others use."""
    language = ("en", "zh")[number % 2]
    monkeypatch.setattr(i18n, "_chosen", language)
    answers = [one.answer for one in batch]
    outcomes = exercise.examine(answers, exercise.visible)
    surprises = []
    for one, answer, outcome in zip(batch, answers, outcomes, strict=True):
        if criterion_of(outcome) != one.criterion:
            outcome = exercise.examine([answer], exercise.visible, PATIENCE_ON_A_BUSY_MACHINE_S)[0]
        if criterion_of(outcome) != one.criterion:
            surprises.append((one.title, one.criterion, outcome))
        if isinstance(outcome, Failure):
            assert outcome.expected
            assert outcome.came
            if language == "zh":
                words = f"{outcome.expected}\n{outcome.came}\n{outcome.case}"
                assert any("\u4e00" <= c <= "\u9fff" for c in words)
                assert not list(typography(words)), words
    assert not surprises


def criterion_of(outcome) -> str | None:
    return outcome.criterion if isinstance(outcome, Failure) else None


@pytest.mark.parametrize(
    "exercise",
    [exercise for exercise in EXERCISES if EXHAUSTIVE or exercise.lab == LAST],
    ids=lambda exercise: exercise.check,
)
def test_hidden_cases_let_every_right_answer_pass_and_no_wrong_one(exercise):
    """The wrong ones by one of each criterion: the first that is planted. `make test` looks at the
    last lab's solution alone."""
    every = answers_to(exercise)
    right = [one for one in every if one.criterion is None]
    wrong = {one.criterion: one for one in reversed(every) if one.criterion}.values()
    for answers, seed in (([*right, *wrong], 0), (right, 1)) if EXHAUSTIVE else ((right[:1], 0),):
        outcomes = exercise.examine([one.answer for one in answers], exercise.draw(Random(seed)))
        assert not {
            one.title: outcome
            for one, outcome in zip(answers, outcomes, strict=True)
            if isinstance(outcome, Failure) is (one.criterion is None)
        }


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.check)
def test_hidden_cases_follow_the_seed_alone(exercise):
    assert exercise.draw(Random(7)) == exercise.draw(Random(7)) != exercise.draw(Random(8))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.check)
def test_criteria_hints_and_planted_answers_belong_together(exercise):
    wrong = {one.criterion for one in answers_to(exercise)} - {None}
    special = {getattr(case, "criterion", None) for case in exercise.visible} - {None}
    assert wrong | special | {"raised", "hung"} <= set(exercise.hints)
    assert set(exercise.hints) - wrong <= WAYS_TO_END
    for ladder in exercise.hints.values():
        for en, zh in ladder:
            assert not any("\u4e00" <= c <= "\u9fff" for c in en)
            assert any("\u4e00" <= c <= "\u9fff" for c in zh)
            assert not list(typography(zh))


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.check)
def test_an_exercise_is_found_by_its_check(exercise):
    assert getattr(check, exercise.check) is exercise
    assert HOMES[exercise.check] == (exercise.lab, exercise.answer)


def test_the_hidden_runner_names_who_is_missing_and_takes_other_cases():
    right = {one.check: one.answer for one in planted("05_data_parallelism")[:1]}
    results = run_hidden("lab05", {"chunk_bounds": right["chunk_bounds"]}, 3)
    assert [*results] == ["chunk_bounds", "ring_all_reduce", "Bucketed"]
    assert results["chunk_bounds"].passed
    assert results["ring_all_reduce"] is results["Bucketed"] is None

    def own(random: Random) -> list[chunks.Case]:
        return [chunks.Case(random.randint(4, 9), 3), chunks.Case(1, 0)]  # nobody can do the last

    results = run_hidden("lab05", {"chunk_bounds": right["chunk_bounds"]}, 3, {"chunk_bounds": own})
    assert results["chunk_bounds"].criterion == "raised"
