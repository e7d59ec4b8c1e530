"""Exercise 2: Lion with nothing but one moment, judged by every weight, by what is kept between
steps and by what a step allocates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ....i18n import t
from ....measure.memory import storage_bytes
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from ..watch import Watch, watch_threads
from .by_hand import ByHand
from .lion_rule import MISTAKES, STEPS, Case, draw, weights

SPARE = 512  # bytes of numbers, not of tensors as large as weights
TOLERANCE = 1e-6  # of a step's length, which is the learning rate


@dataclass
class Facts:
    """After a step: the weights as they came, whether each lies where it lay; bytes alive beyond
    weights and gradients, and the most that the step made (in the last step alone; else 0)."""

    weights: list[Tensor]
    in_place: bool
    kept: int
    made: int


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """Four steps for each case, until one is wrong."""
    watch_threads()
    for number, case in enumerate(cases):
        begin_case(number, patience)
        for step, found in enumerate(_train(answer, case)):
            saw(STEPS * number + step, found)
            if judge(case, [found], step):
                return
            begin_case(number, patience)  # each step has its time


def _train(answer: Callable[..., Any], case: Case) -> Iterator[Facts]:
    weights(case, "right")  # what is there before the watch is not the answer's
    parameters = [nn.Parameter(w) for w in case.first()]
    places = [p.data_ptr() for p in parameters]
    watch = Watch()
    with ByHand(), watch:
        optimizer = answer(parameters, case.lr, case.betas, case.weight_decay)
    for step in range(STEPS):
        last = step == STEPS - 1
        with watch, watch.ignoring():
            for p, gradient in zip(parameters, case.gradients(step), strict=True):
                p.grad = gradient
        known = [*parameters, *(p.grad for p in parameters if p.grad is not None)]
        watch.follow(known)
        before = watch.now() if last else 0
        watch.begin_peak()
        with ByHand(), watch:
            optimizer.step()
        made = watch.peak - before if last else 0
        known += [p.grad for p in parameters if p.grad is not None]
        watch.follow(known)
        kept = watch.now() - storage_bytes(known) if last else 0
        with watch, watch.ignoring():
            came = [p.detach().clone() for p in parameters]
        yield Facts(came, [p.data_ptr() for p in parameters] == places, kept, made)


def judge(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """Values, then where they lie, then what is kept and made."""
    found = facts[0]
    wrong = _off(case, found.weights, "right", step)
    if wrong:
        share = sum(wrong) / case.numel
        words = t(
            f"after step {step + 1} every weight is that of Lion, computed in float64.",
            f"第 {step + 1} 步之后，每个权重都与 float64 算出的 Lion 一致。",
        )
        came = t(f"{100 * share:.3g} % are not.", f"有 {100 * share:.3g}% 不是。")
        return Failure(_named(case, found.weights, wrong, step), words, came)
    if not found.in_place:
        return Failure(
            "lion.place",
            t("every weight is updated where it lies.", "每个权重都就地更新。"),
            t("a weight now lies in another place in memory.", "有权重换了内存位置。"),
        )
    if found.kept > case.copy + SPARE:
        return Failure(
            "lion.states",
            t(
                f"between steps one moment is kept: {case.copy:,} bytes.",
                f"两步之间只保留一份动量：{case.copy:,} 字节。",
            ),
            t(f"{found.kept:,} bytes are alive.", f"有 {found.kept:,} 字节存活。"),
        )
    if found.made > case.largest // 4:
        return Failure(
            "lion.made",
            t(
                f"a step makes no tensor as large as a weight: at most {case.largest // 4:,} bytes"
                " that are new, at any moment.",
                f"一步之中不创建与权重同样大的张量：任何时刻，新增不超过 {case.largest // 4:,}"
                " 字节。",
            ),
            t(f"up to {found.made:,} bytes were new.", f"新增曾达 {found.made:,} 字节。"),
        )
    return None


def _off(case: Case, came: Sequence[Tensor], mistake: str, step: int) -> list[int]:
    """How many elements of each tensor are not what `mistake` makes of them; empty if none is."""
    counts = []
    for now, want in zip(came, weights(case, mistake)[step + 1], strict=True):
        close = (now - want).abs() <= TOLERANCE * case.lr  # nan compares with nothing
        counts.append(int((~close).sum()))
    return counts if any(counts) else []


def _named(case: Case, came: Sequence[Tensor], wrong: Sequence[int], step: int) -> str:
    """The criterion: by who is wrong, else by the mistake that comes to the same weights."""
    if case.late and not any(wrong[:-1]):
        return "lion.missing"
    if case.zeros and _only_still_rows(case, came, step):
        return "lion.zero"
    for mistake, criterion in MISTAKES.items():
        if not _off(case, came, mistake, step):
            return criterion
    return "lion.value"


def _only_still_rows(case: Case, came: Sequence[Tensor], step: int) -> bool:
    """Whether all is right but rows whose gradient is always zero."""
    want = weights(case, "right")[step + 1]
    pairs = list(zip(came, want, strict=True))
    pairs[0] = (came[0][case.zeros :], want[0][case.zeros :])
    return all(bool(((a - b).abs() <= TOLERANCE * case.lr).all()) for a, b in pairs)


def _told(words: Callable[[Facts], int]) -> Callable[..., str]:
    return lambda _, told: f"{words(told[-1][0]):,}"


EXERCISE = Exercise(
    check="lion",
    answer="Lion",
    lab="lab12",
    run=run,
    judge=judge,
    columns=(
        Column("case", "测试条件", lambda case, _: case),
        Column("one copy of the weights, bytes", "一份权重（字节）", lambda c, _: f"{c.copy:,}"),
        Column("kept between steps", "两步之间保留", _told(lambda f: f.kept)),
        Column("AdamW would keep", "AdamW 要保留", lambda case, _: f"{2 * case.copy:,}"),
        Column("new in a step, at the most", "一步之中新增最多", _told(lambda f: f.made)),
    ),
    visible=(Case(), Case(zeros=9, seed=1), Case(late=True, seed=2)),
    draw=draw,
    moments=STEPS,
    moment=lambda step: t(f", step {step + 1}", f"、第 {step + 1} 步"),
)
