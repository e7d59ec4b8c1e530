"""A lab's own check at work in a room, on hidden cases."""

from __future__ import annotations

from random import Random
from typing import Any

from torch import Tensor

from .lab05 import Said
from .link import Link


def check(link: Link, answer: Any, words: dict, _: list[Tensor]) -> Said:
    """ "passed", or the failure's four words."""
    from ...course import check as checks
    from ...course.checks.verdict import Failure
    from ...i18n import set_language

    set_language(words["lang"])
    exercise = getattr(checks, words["check"])
    outcome = exercise.examine([answer], exercise.draw(Random(words["seed"])))[0]
    return {"done": list(outcome) if isinstance(outcome, Failure) else "passed"}, []
