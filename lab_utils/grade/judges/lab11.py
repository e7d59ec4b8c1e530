"""Lab 11: two functions of plain values, and a norm over ranks whose messages we carry."""

from __future__ import annotations

import torch

from ...course import check
from ...course.checks.lab11 import norm
from ...course.checks.lab11.clipping import as_number
from ..crew import Seat
from ..values import Axis
from .by_call import called, judge_by_call


def _norms(case: norm.Case, seats: list[Seat]) -> list[norm.Facts]:
    """What each rank returned, what it sent, and whether its gradients are as they were."""
    held = [case.held(rank) for rank in range(case.ranks)]
    args = [(*parts, Axis(rank, case.ranks)) for rank, parts in enumerate(held)]
    values, hub = called(seats, norm.EXERCISE.answer, args)
    facts = []
    for rank, (value, now) in enumerate(zip(values, held, strict=True)):
        before = [x for part in case.held(rank) for x in part]
        unchanged = all(map(torch.equal, [x for part in now for x in part], before))
        sent = sum(passed.nbytes for passed in hub.passed[rank])
        facts.append(norm.Facts(as_number(value), sent, unchanged))
    return facts


JUDGES = (
    judge_by_call(check.first_weights),
    judge_by_call(check.clip_gradients),
    judge_by_call(check.global_norm, _norms),
)
