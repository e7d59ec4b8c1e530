"""A lab's own check at work in a room, on the visible cases or on hidden ones."""

from __future__ import annotations

from random import Random
from typing import Any

from torch import Tensor

from .lab05 import Said
from .link import Link

PATIENCE_S = 300.0  # the grader's own, which is no clock, ends sooner


def check(link: Link, answer: Any, words: dict, _: list[Tensor]) -> Said:
    """ "passed", or the failure's four words."""
    from ...course import check as checks
    from ...course.checks.verdict import Failure
    from ...i18n import set_language

    set_language(words["lang"])
    exercise = getattr(checks, words["check"])
    seed = words["seed"]
    cases = exercise.visible if seed is None else exercise.draw(Random(seed))
    outcome = exercise.examine([answer], cases, PATIENCE_S)[0]
    return {"done": list(outcome) if isinstance(outcome, Failure) else "passed"}, []
