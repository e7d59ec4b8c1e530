"""What is wrong with a trunk and its branches, out of the book of all their updates, beside runs
that were planned whole. A finding is (criterion, expected, came) in the learner's language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch

from ....i18n import t
from .trunk import Book, Entry, Run, apart

TOLERANCE = 1e-6  # of the norm
Found = tuple[str, str, str] | None


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


@cache  # a launch may have many answers
def whole_run(seed: int, horizon: int | None, cooldown: int, updates: int) -> Run:
    """A run that was planned so from its first update; its book has every update."""
    torch.manual_seed(seed)
    run = Run(seed, Book())
    run.schedule.horizon, run.schedule.cooldown = horizon, cooldown
    for _ in range(updates):
        run.update()
    return run


def planned(case: Case, made: list[Entry], trunk: Run) -> Found:
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


def in_step(case: Case, made: list[Entry], whole: Mapping[int, Run], alone: Run) -> Found:
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


def count(case: Case, made: list[Entry]) -> Found:
    """Whether no update was made twice, and none left out."""
    if len(made) == case.needed:
        return None
    twice = Counter((e.horizon, e.update) for e in made).most_common(1)[0][1]
    again = t(f"; one of them {twice} times", f"，其中有一次做了 {twice} 遍")
    return (
        "branch.count",
        t(
            f"{case.needed} updates in all: the trunk once, and each cool-down.",
            f"一共 {case.needed} 次更新：主干一遍，加上每段冷却。",
        ),
        str(len(made)) + (again if twice > 1 else ""),
    )


def goes_on(case: Case, after: list[Entry], alone: Run) -> Found:
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
