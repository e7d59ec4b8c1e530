"""Lab 06's plain cases need no padding, and its padding cases do: or a mistake in the padding would
go by the name of another."""

from __future__ import annotations

from random import Random

import pytest

from lab_utils.course.checks.exercise import exercises

# what is padded by itself: the whole model, each parameter, each block
PIECES = {
    "zero1": lambda case: [case.numel],
    "zero2": lambda case: [n for block in case.shapes for n in block],
    "zero3": lambda case: [sum(block) for block in case.shapes],
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("exercise", exercises("lab06"), ids=lambda exercise: exercise.check)
def test_only_padding_cases_need_padding(exercise, seed):
    for case in (*exercise.visible, *exercise.draw(Random(seed))):
        pads = any(n % case.ranks for n in PIECES[exercise.check](case))
        assert pads == (case.criterion in ("padding", "any-n")), case
