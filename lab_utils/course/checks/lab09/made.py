"""Exercise 2: process groups for every axis, made on real ranks, where all have to call and nobody
may be left waiting."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.comm import Axis
from ....parallel.mesh import Mesh
from ..exercise import Column, Exercise
from ..ranks import BrokenRule, begin_case, saw
from ..verdict import Failure
from . import groups

RETURNED = -1


@dataclass(frozen=True)
class Case(groups.Case):
    """Axes and sizes, on as many real ranks as their product."""

    @property
    def ranks(self) -> int:
        """Processes."""
        return prod(self.sizes)


@dataclass
class Facts:
    """One rank: of every axis the ranks of the group that it was given, None for one that it is not
    in, words for what is no group; and how many groups it helped to make."""

    held: list[list[int] | str | None]
    made: int


class Meeting:
    """Has every rank say which group it is about to make, before torch waits for the others: by
    then it is too late to say anything."""

    def __init__(self, plain: Axis) -> None:
        self.made, self._plain = 0, plain

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside, no group is made before all ranks agree on it."""
        make = distributed_c10d._new_group_with_tag
        signature = inspect.signature(make)

        @functools.wraps(make)
        def agreed(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            ranks = given.get("ranks")
            if not given.get("use_local_synchronization"):
                self.agree(list(range(self._plain.size)) if ranks is None else list(ranks))
            self.made += 1
            return make(*args, **kwargs)

        distributed_c10d._new_group_with_tag = agreed
        try:
            yield
        finally:
            distributed_c10d._new_group_with_tag = make

    def agree(self, ranks: list[int] | None) -> None:
        """All ranks come here with the same group, or all with None: they have returned."""
        told = torch.zeros(self._plain.size, dtype=torch.int64)
        told[self._plain.rank] = RETURNED if ranks is None else sum(1 << r for r in set(ranks))
        self._plain.all_gather(told, purpose="control").wait()
        masks = told.tolist()
        if len(set(masks)) > 1:
            self._refuse(masks)

    def _refuse(self, masks: list[int]) -> None:
        other = next(rank for rank, mask in enumerate(masks) if mask != masks[0])
        inside = all(mask == RETURNED or mask >> rank & 1 for rank, mask in enumerate(masks))
        call, come = self.made + 1, [self._words(rank, masks[rank]) for rank in (0, other)]
        raise BrokenRule(
            "made.members" if inside else "made.order",
            t(
                "every rank calls dist.new_group for every group, its own and the others', in one"
                " order.",
                "每个 rank 都要为每个组（不只是自己的组）调用 dist.new_group，次序也都相同。",
            ),
            t(
                f"at call {call}, {come[0]} and {come[1]}: they would wait for ever.",
                f"第 {call} 次调用时，{come[0]}，{come[1]}：它们会一直等下去。",
            ),
        )

    @staticmethod
    def _words(rank: int, mask: int) -> str:
        if mask == RETURNED:
            return t(f"rank {rank} has already returned", f"rank {rank} 已经返回")
        ranks = [r for r in range(mask.bit_length()) if mask >> r & 1]
        return t(f"rank {rank} makes {ranks}", f"rank {rank} 在创建 {ranks}")


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Have the groups of each case made, with a right `group_of` at hand."""
    if hasattr(answer, "__globals__"):
        answer.__globals__["group_of"] = reference
    world = dist.get_world_size()
    plain = Mesh(ParallelConfig(dp=world))["dp"]
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        meeting = Meeting(plain)
        with meeting.watched():
            found = answer(case.order, case.flags())
            meeting.agree(None)
        saw(number, Facts([_held(found, axis) for axis in case.order], meeting.made))


def _held(found: Any, axis: str) -> list[int] | str | None:
    if not isinstance(found, dict):
        return f"{found!r:.60}"
    if axis not in found:
        return t("no entry", "字典里没有这一项")
    group = found[axis]
    if group is dist.GroupMember.NON_GROUP_MEMBER or group is None:
        return None
    try:
        return dist.get_process_group_ranks(group)
    except (KeyError, TypeError, ValueError, RuntimeError):
        return f"{group!r:.60}"


def reference(rank: int, axis: str, order: Sequence[str], sizes: dict[str, int]) -> list[int]:
    """A right answer to exercise 1."""
    return groups.Case(tuple(order), tuple(sizes[name] for name in order)).right(rank, axis)


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """What is no group, then whose it is not, then how many were made."""
    for rank, seen in enumerate(facts):
        for axis, held in zip(case.order, seen.held, strict=True):
            failure = _axis(case, rank, axis, held)
            if failure:
                return failure
    most = sum(case.ranks // size for size in case.sizes)
    made = max(seen.made for seen in facts)
    if made > most:
        return Failure(
            "made.twice",
            t(f"{most} groups in all, each made once.", f"一共 {most} 个组，每个只创建一次。"),
            t(f"a rank made {made}.", f"有 rank 创建了 {made} 个。"),
        )
    return None


def _axis(case: Case, rank: int, axis: str, held: list[int] | str | None) -> Failure | None:
    right = case.right(rank, axis)
    if isinstance(held, str):
        words = t(
            "a dict with a process group for every axis, also for one of size 1.",
            "返回字典：每个轴对应一个进程组，大小为 1 的轴也有。",
        )
        came = t(f"on rank {rank}, for {axis}: {held}.", f"rank {rank} 的 {axis}：{held}。")
        return Failure("made.form", words, came)
    if held == right:
        return None
    expected = t(
        f"on rank {rank}, the group of {axis} is {right}.",
        f"rank {rank} 在 {axis} 轴上的组是 {right}。",
    )
    if held is None:
        came = t("a group that this rank is not in.", "这个 rank 不在其中的组。")
        return Failure("made.stranger", expected, came)
    return Failure("made.axis", expected, t(f"{held}.", f"{held}。"))


def draw(random: Random) -> list[Case]:
    """Three axes in any order, of six and of eight ranks."""
    cases = []
    for sizes in ((2, 2, 2), (4, 2, 1), (3, 2, 1)):
        order = random.sample(("dp", "pp", "cp", "tp"), 3)
        cases.append(Case(tuple(order), tuple(random.sample(sizes, 3))))
    return cases


EXERCISE = Exercise(
    check="make_groups",
    answer="make_groups",
    lab="lab09",
    run=run,
    judge=judge,
    columns=(
        Column("grid, outermost first", "网格（最外层在前）", lambda case, _: str(case)),
        Column("groups made", "创建的组数", lambda _, told: told[0][0].made),
        Column(
            "rank 5's",
            "rank 5 的组",
            lambda _, told: " | ".join(" ".join(map(str, g)) for g in told[0][5].held),
        ),
    ),
    visible=(
        Case(("dp", "pp", "tp"), (2, 2, 2)),
        Case(("pp", "dp", "tp"), (2, 2, 2)),
        Case(("dp", "cp", "tp"), (4, 1, 2)),
    ),
    draw=draw,
)
