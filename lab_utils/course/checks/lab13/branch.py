"""Exercise 4: cool-downs branched off one trunk, update by update beside runs that were planned
whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from .branch_judge import TOLERANCE, Case, Found, count, goes_on, in_step, planned, whole_run
from .trunk import Book, Run, apart

AFTERWARDS = 2  # updates of the trunk after the answer returned


@dataclass
class Facts:
    """`failure`: what is wrong, as (criterion, expected, came) in the learner's language; `made`:
    updates in all; `off`: how far the branches' weights are from whole runs'."""

    failure: Found
    made: int
    off: dict[int, float]


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Let the answer branch a trunk, then let the trunk go on."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        whole = {h: whole_run(case.seed, h, length, h) for h, length in case.cooldowns}
        alone = whole_run(case.seed, None, 0, max(whole) + AFTERWARDS)
        # the answer has all of the time for itself
        begin_case(number, patience)
        torch.manual_seed(case.seed)
        trunk = Run(case.seed, Book())
        for _ in range(case.start):
            trunk.update()
        trunk.book.entries.clear()
        returned = answer(trunk, dict(case.cooldowns))
        made = list(trunk.book.entries)
        for _ in range(AFTERWARDS):
            trunk.update()
        failure, off = planned(case, made, trunk) or in_step(case, made, whole, alone), {}
        failure = failure or count(case, made)
        if not failure:
            after = trunk.book.entries[len(made) :]
            failure = goes_on(case, after, alone)
        if not failure:
            off = {h: _off(returned, h, whole[h].model) for h in whole}
            failure = _weights(off)
        saw(number, Facts(failure, len(made), off))
        if failure:
            return


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """What the run found, in its own process, where the tensors are."""
    return Failure(*facts[0].failure) if facts[0].failure else None


def _off(returned: Any, horizon: int, right: torch.nn.Module) -> float:
    state = returned.get(horizon) if isinstance(returned, Mapping) else None
    want = right.state_dict()
    if not isinstance(state, Mapping) or {*state} != {*want}:
        return inf
    if not all(isinstance(state[name], Tensor) for name in want):
        return inf
    came, wanted = (torch.cat([s[name].flatten() for name in want]) for s in (state, want))
    return apart(came, wanted)


def _weights(off: dict[int, float]) -> Found:
    for horizon, error in off.items():
        if not error < TOLERANCE:
            return (
                "branch.returned",
                t(
                    f"returned[{horizon}] is the state_dict of the model at the end of its branch.",
                    f"returned[{horizon}] 是该分支结束时模型的 state_dict。",
                ),
                t("no state_dict of this model.", "不是这个模型的 state_dict。")
                if error == inf
                else t(f"off by {error:.2g}.", f"相对偏差 {error:.2g}。"),
            )
    return None


def draw(random: Random) -> list[Case]:
    """Two to four horizons in any order; a trunk that is under way; long cool-downs and short, and
    once a longer horizon that branches off earlier."""
    first = random.randint(14, 20)
    found = [Case(((first, 2), (first + 6, first // 2 + 3)), 1, random.randint(1, 10**6))]
    for number in range(3):
        horizons = random.sample(range(12, 34), random.randint(2, 4))
        cooldowns = tuple((h, random.randint(2, h // 2)) for h in horizons)
        earliest = min(h - length for h, length in cooldowns)
        start = 0 if number == 0 else random.randint(1, earliest)
        found.append(Case(cooldowns, start, random.randint(1, 10**6)))
    return found


EXERCISE = Exercise(
    check="cool_branches",
    answer="cool_branches",
    lab="lab13",
    run=run,
    judge=judge,
    columns=(
        Column("horizons", "训练长度", lambda case, _: " ".join(str(h) for h, _ in case.cooldowns)),
        Column(
            "cool-downs", "冷却长度", lambda case, _: " ".join(str(c) for _, c in case.cooldowns)
        ),
        Column("updates made", "更新次数", lambda case, told: case.start + told[0][0].made),
        Column("whole runs", "分别训练", lambda case, _: case.whole),
        Column(
            "branches' weights",
            "分支的权重",
            lambda _, told: (
                t("a whole run's, to the bit", "与单独训练逐位相同")
                if max(told[0][0].off.values()) == 0
                else f"{max(told[0][0].off.values()):.1g}"
            ),
        ),
    ),
    visible=(
        Case(((10, 2), (20, 4), (40, 8))),
        Case(((24, 6), (12, 3)), start=5, seed=1),
        # 20 begins its cool-down before 18
        Case(((18, 2), (30, 3), (20, 8)), start=2, seed=2),
    ),
    draw=draw,
)
