"""Exercise 4: cool-downs branched off one trunk, update by update beside runs that were planned
whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from .trunk import Book, Entry, Run, apart

TOLERANCE, AFTERWARDS = 1e-6, 2  # of the norm; updates of the trunk after the answer returned


class Case(NamedTuple):
    """Cool-downs as (horizon, length), in the order in which the answer is told; the trunk has made
    `start` updates."""

    cooldowns: tuple[tuple[int, int], ...]
    start: int = 0
    seed: int = 0

    def __str__(self) -> str:
        plan = ", ".join(f"{horizon}: {length}" for horizon, length in self.cooldowns)
        words = f"cooldowns = {{{plan}}}"
        return words + t(f", trunk at update {self.start}", f"，主干已做 {self.start} 次更新")

    @property
    def trunk_end(self) -> int:
        """The trunk's updates when the last branch leaves it."""
        return max(horizon - length for horizon, length in self.cooldowns)

    @property
    def needed(self) -> int:
        """Updates that the answer has to make, in all."""
        return self.trunk_end - self.start + sum(length for _, length in self.cooldowns)

    @property
    def whole(self) -> int:
        """Updates of as many runs from the beginning."""
        return sum(horizon for horizon, _ in self.cooldowns)


@dataclass
class Facts:
    """`failure`: what is wrong, as (criterion, expected, came) in the learner's language; `made`:
    updates in all; `off`: how far the branches' weights are from whole runs'."""

    failure: tuple[str, str, str] | None
    made: int
    off: dict[int, float]


@cache  # a launch may have many answers
def whole_run(seed: int, horizon: int | None, cooldown: int, updates: int) -> Run:
    """A run that was planned so from its first update; its book has every update."""
    torch.manual_seed(seed)
    run = Run(seed, Book())
    run.schedule.horizon, run.schedule.cooldown = horizon, cooldown
    for _ in range(updates):
        run.update()
    return run


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
        failure, off = _planned(case, made, trunk) or _in_step(case, made, whole, alone), {}
        failure = failure or _count(case, made)
        if not failure:
            after = trunk.book.entries[len(made) :]
            failure = _goes_on(case, after, alone)
        if not failure:
            off = {h: _off(returned, h, whole[h].model) for h in whole}
            failure = _weights(off)
        saw(number, Facts(failure, len(made), off))
        if failure:
            return


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """What the run found, in its own process, where the tensors are."""
    return Failure(*facts[0].failure) if facts[0].failure else None


def _planned(case: Case, made: list[Entry], trunk: Run) -> tuple[str, str, str] | None:
    """Whether each horizon has its cool-down, and the trunk none."""
    for horizon, length in case.cooldowns:
        begin, mine = horizon - length, [e for e in made if e.horizon == horizon]
        if not mine:
            # others have theirs: the trunk had gone past this branch
            past = any(e.horizon in dict(case.cooldowns) for e in made)
            return (
                "branch.cooldown" if past else "branch.schedule",
                t(
                    f"updates with schedule.horizon = {horizon}.",
                    f"有 schedule.horizon = {horizon} 的更新。",
                ),
                t("there are none.", "一次也没有。"),
            )
        steady = {e.of for e in made if e.horizon is None}
        others = [e for e in mine if e.of != id(trunk)]
        if others and any(e.of == id(trunk) for e in mine) and id(trunk) in steady:
            return _trunk_falls(horizon)
        updates = sorted({e.update for e in mine})
        wrong = [e.rate for e in mine if e.update >= begin]
        falls = [e.rate for e in whole_run(case.seed, horizon, length, horizon).book.entries]
        came = sorted(set(wrong), reverse=True)
        if updates[0] > begin or updates[-1] != horizon - 1 or {*came} != {*falls[begin:]}:
            return (
                "branch.cooldown",
                t(
                    f"updates {begin} to {horizon - 1} fall, from {falls[begin]:.4f} to"
                    f" {falls[-1]:.4f}.",
                    f"第 {begin} 到 {horizon - 1} 次更新下降：从 {falls[begin]:.4f} 到"
                    f" {falls[-1]:.4f}。",
                ),
                t(
                    f"with this horizon came updates {updates[0]} to {updates[-1]}, with rates"
                    f" {', '.join(f'{rate:.4f}' for rate in came[:6])}.",
                    f"这个 horizon 下做了第 {updates[0]} 到 {updates[-1]} 次更新，学习率为"
                    f" {'、'.join(f'{rate:.4f}' for rate in came[:6])}。",
                ),
            )
    if trunk.schedule.horizon is not None:
        return _trunk_falls(trunk.schedule.horizon)
    return None


def _trunk_falls(horizon: int) -> tuple[str, str, str]:
    return (
        "branch.schedule",
        t("the trunk's rate stays constant.", "主干的学习率保持不变。"),
        t(
            f"a branch's horizon, {horizon}, has got into the trunk's schedule.",
            f"分支的 horizon（{horizon}）混进了主干的 schedule。",
        ),
    )


def _in_step(
    case: Case, made: list[Entry], whole: Mapping[int, Run], alone: Run
) -> tuple[str, str, str] | None:
    """The first update that did not begin as in a whole run."""
    for entry in made:
        reference = alone if entry.horizon is None else whole[entry.horizon]
        if entry.update >= len(reference.book.entries):
            return (
                "branch.count",
                t(
                    f"no update after number {len(reference.book.entries) - 1}.",
                    f"第 {len(reference.book.entries) - 1} 次更新之后不再更新。",
                ),
                t(f"update {entry.update}.", f"第 {entry.update} 次更新。"),
            )
        kind = _differs(entry, reference.book.entries[entry.update])
        if kind:
            return _words(entry, kind)
    return None


def _differs(entry: Entry, right: Entry) -> str:
    """What the update began with that it should not have: "" if all is right."""
    if entry.position != right.position:
        return "data"
    if not apart(entry.weights, right.weights) < TOLERANCE:
        return "weights" if entry.horizon is not None else "trunk"
    if not apart(entry.moments, right.moments) < TOLERANCE:
        return "moments" if entry.horizon is not None else "trunk"
    return "random" if entry.random != right.random else ""


def _words(entry: Entry, kind: str) -> tuple[str, str, str]:
    whose = (
        t("the trunk", "主干")
        if entry.horizon is None
        else t(f"the branch to {entry.horizon}", f"到 {entry.horizon} 的分支")
    )
    what = {
        "data": t("another place in the data", "数据的位置不对"),
        "weights": t("other weights", "权重不对"),
        "trunk": t("other weights or moments", "权重或动量不对"),
        "moments": t("other moments, or another step count, in AdamW", "AdamW 的动量或步数不对"),
        "random": t("another state of the random generator", "随机数发生器的状态不对"),
    }[kind]
    return (
        f"branch.{kind}",
        t(
            f"{whose} begins update {entry.update} as a run of its own would.",
            f"{whose}开始第 {entry.update} 次更新时，与单独的一次训练完全一样。",
        ),
        t(f"{what}.", f"{what}。"),
    )


def _count(case: Case, made: list[Entry]) -> tuple[str, str, str] | None:
    if len(made) == case.needed:
        return None
    twice = Counter((e.horizon, e.update) for e in made).most_common(1)[0][1]
    again = t(f"; one of them {twice} times", f"，其中有一次做了 {twice} 遍")
    return (
        "branch.count",
        t(
            f"{case.needed} updates in all: the trunk once, and each cool-down.",
            f"一共 {case.needed} 次更新：主干一遍，加上每段退火。",
        ),
        str(len(made)) + (again if twice > 1 else ""),
    )


def _goes_on(case: Case, after: list[Entry], alone: Run) -> tuple[str, str, str] | None:
    """The trunk's next updates, after the answer returned."""
    if after[0].update != case.trunk_end:
        return (
            "branch.count",
            t(
                f"the trunk stands at update {case.trunk_end}, where the last branch left it.",
                f"主干停在第 {case.trunk_end} 次更新：最后一个分支离开的地方。",
            ),
            str(after[0].update),
        )
    for entry in after:
        kind = _differs(entry, alone.book.entries[entry.update])
        if kind:
            return _words(entry, kind)
    return None


def _off(returned: Any, horizon: int, right: torch.nn.Module) -> float:
    state = returned.get(horizon) if isinstance(returned, Mapping) else None
    want = right.state_dict()
    if not isinstance(state, Mapping) or {*state} != {*want}:
        return inf
    if not all(isinstance(state[name], Tensor) for name in want):
        return inf
    came, wanted = (torch.cat([s[name].flatten() for name in want]) for s in (state, want))
    return apart(came, wanted)


def _weights(off: dict[int, float]) -> tuple[str, str, str] | None:
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
    """Two to four horizons in any order; a trunk that is under way; long cool-downs and short."""
    found = []
    for number in range(4):
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
            "cool-downs", "退火长度", lambda case, _: " ".join(str(c) for _, c in case.cooldowns)
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
        Case(((18, 9), (30, 3), (20, 2)), start=2, seed=2),
    ),
    draw=draw,
)
