"""Exercise 1: a loss scaler on several ranks, judged step by step on what each rank saw and did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent, see, waited_axis

Bad = tuple[int, float]  # the rank whose gradients hold it, and what it is
WINDOW = 3
_INF, _NAN = float("inf"), float("nan")


@dataclass(frozen=True)
class Case:
    """For each step None, or whose gradients are not finite; and the scale that it begins with."""

    ranks: int
    steps: tuple[Bad | None, ...]
    scale: float = 1024.0

    def __str__(self) -> str:
        seen = "".join("·" if bad is None else "×" for bad in self.steps)
        return t(
            f"N = {self.ranks}, steps {seen} (× overflows), S = {self.scale:g}",
            f"N = {self.ranks}，各步 {seen}（× 为上溢），S = {self.scale:g}",
        )


@dataclass
class Step:
    """One step of one rank: what it took for an overflow, the scale afterwards, what was sent."""

    found: Any
    scale: Any
    sent: Sent


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Hand each rank its gradients, then tell the scaler what it has found."""
    plain, axis = waited_axis("all_reduce")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        scaler, facts = answer(axis, case.scale, WINDOW), []
        for bad in case.steps:
            gradients = [torch.ones(3, 2), torch.full((5,), -2.0), torch.zeros(4)]
            if bad and bad[0] == axis.rank:
                gradients[-1][-1] = bad[1]
            axis.begin()
            with Transfers() as transfers:
                found = scaler.overflowed(gradients)
                scaler.update(found)
            facts.append(Step(found, scaler.scale, see(axis, transfers)))
        saw(number, facts)


def expected(case: Case) -> list[tuple[str, float]]:
    """For each step what kind of step it is, and the scale after it."""
    scale, good, forgiven, grown, told = case.scale, 0, False, False, []
    for bad in case.steps:
        kind = "hold"
        if bad and not forgiven:
            kind, forgiven, good = "renew" if grown else "forgive", True, 0
        elif bad:
            kind = "halve" if scale > 1 else "floor"
            scale, good = max(scale / 2, 1.0), 0
        else:
            good += 1
            if good == WINDOW:
                kind, good, forgiven, grown = "grow", 0, False, True
                scale *= 2
        told.append((kind, scale))
    return told


def judge(case: Case, facts: list[list[Step]], _: int = 0) -> Failure | None:
    """Transfers; what was found in every step (who asks nobody sends nothing, and that is not what
    is wrong); then step by step what it took, and the scale."""
    failure = judge_sent([step.sent for rank in facts for step in rank])
    by_step = [[rank[number] for rank in facts] for number in range(len(case.steps))]
    for number, (bad, steps) in enumerate(zip(case.steps, by_step, strict=True)):
        failure = failure or _found(number, bad, steps)
    for number, ((kind, scale), steps) in enumerate(zip(expected(case), by_step, strict=True)):
        failure = failure or _messages(steps) or _scale(number, kind, scale, steps)
    return failure


def _found(number: int, bad: Bad | None, steps: list[Step]) -> Failure | None:
    right = bad is not None
    wrong = [rank for rank, step in enumerate(steps) if step.found is not right]
    if not wrong:
        return None
    where = t(f"step {number}: ", f"第 {number} 步：")
    if bad is None:
        return Failure(
            "scaler.alarm",
            where + t("False, all gradients are finite.", "False，所有梯度都有限。"),
            t(
                f"{steps[wrong[0]].found!r} on rank {wrong[0]}.",
                f"rank {wrong[0]} 返回 {steps[wrong[0]].found!r}。",
            ),
        )
    rule = "scaler.sees" if bad[0] in wrong else "scaler.agree"
    return Failure(
        rule,
        where
        + t(
            f"True on every rank: rank {bad[0]} has {bad[1]}.",
            f"每个 rank 都是 True：rank {bad[0]} 有 {bad[1]}。",
        ),
        t(
            f"{steps[wrong[0]].found!r} on rank {wrong[0]}.",
            f"rank {wrong[0]} 返回 {steps[wrong[0]].found!r}。",
        ),
    )


def _messages(steps: list[Step]) -> Failure | None:
    for step in steps:
        calls, size = sum(step.sent.calls.values()), sum(step.sent.bytes.values())
        if calls != 1 or size > 8:
            return Failure(
                "scaler.bytes",
                t("one all-reduce of one number.", "一次 all-reduce，一个数。"),
                t(f"{calls} calls, {size} bytes.", f"{calls} 次调用，{size} 字节。"),
            )
    return None


def _scale(number: int, kind: str, scale: float, steps: list[Step]) -> Failure | None:
    for rank, step in enumerate(steps):
        if not isinstance(step.scale, int | float) or step.scale != scale:
            why = {
                "hold": t("nothing has changed", "没有变化"),
                "forgive": t("the first overflow is forgiven", "第一次上溢可以原谅"),
                "renew": t("a growth has renewed forgiveness", "增长之后又可以原谅一次"),
                "halve": t("this overflow halves", "这次上溢要减半"),
                "floor": t("never below 1", "不低于 1"),
                "grow": t(f"{WINDOW} good steps in a row", f"连续 {WINDOW} 步正常"),
            }[kind]
            return Failure(
                f"scaler.{kind}",
                t(
                    f"S = {scale:g} after step {number}: {why}.",
                    f"第 {number} 步之后 S = {scale:g}：{why}。",
                ),
                t(f"S = {step.scale!r} on rank {rank}.", f"rank {rank} 上 S = {step.scale!r}。"),
            )
    return None


def draw(random: Random) -> list[Case]:
    """Any order of good and bad steps, after one that has everything in it."""
    bads = (_INF, -_INF, _NAN)  # the very same NaN, so that cases compare

    def bad(n: int) -> Bad:
        return random.randrange(n), random.choice(bads)

    found = []
    for n in (3, 4):
        story = [None, bad(n), bad(n), *[None] * WINDOW, bad(n), bad(n), None, None, bad(n)]
        noise = [bad(n) if random.random() < 0.4 else None for _ in range(14)]
        found.append(Case(n, (*story, *noise), 2.0 ** random.randint(6, 16)))
        found.append(Case(n, tuple(bad(n) for _ in range(random.randint(3, 5))), 2.0))
    return found


EXERCISE = Exercise(
    check="loss_scaler",
    answer="Scaler",
    lab="lab04",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column(
            "steps", "各步", lambda case, _: "".join("·" if b is None else "×" for b in case.steps)
        ),
        Column(
            "scale after each",
            "每步之后的 S",
            lambda _, told: " ".join(f"{s.scale:g}" for s in told[0][0]),
        ),
        Column("bytes a step", "每步字节", lambda _, told: sum(told[0][0][0].sent.bytes.values())),
    ),
    visible=(
        Case(3, (None, (0, _INF), None, None)),
        Case(3, (None, (2, _NAN), (1, -_INF), None, None)),
        Case(3, (None, None, None, (1, _INF), None, None, (0, _INF), None, None, None)),
        Case(4, ((3, _INF), *[None] * WINDOW, (2, _INF), (0, _NAN), (1, _NAN))),
        Case(4, ((3, _INF), (3, _INF), (3, _INF), (0, _INF)), 2.0),
    ),
    draw=draw,
)
