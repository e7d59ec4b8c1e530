"""Exercise 1: gradients of uneven micro-batches added up, as if each group had been one batch: the
verdict."""

from __future__ import annotations

from random import Random
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from .accumulation_run import Case, Facts, run_cases
from .alone import SLACK_BYTES, TOLERANCE, ended, judged


def judge(case: Case, f: Facts) -> Failure | None:
    """Steps, gradients, losses, then what it cost."""
    return _steps(case, f) or _gradients(case, f) or _losses(case, f) or _cost(case, f)


def _steps(case: Case, f: Facts) -> Failure | None:
    n, right, came = len(case.counts), case.steps, len(f.steps)
    if came == right:
        return None
    left = n % case.group
    expected = t(
        f"{n} micro-batches in groups of {case.group}: {right} optimizer steps"
        + (f", the last one on the {left} that are left." if left else "."),
        f"{n} 个微批次，每组 {case.group} 个：优化器更新 {right} 步"
        + (f"，最后一步用剩下的 {left} 个。" if left else "。"),
    )
    kind = (
        "steps.last-group"
        if left and came == n // case.group
        else "steps.every"
        if came == n
        else "steps"
    )
    return Failure(
        kind, expected, t(f"the optimizer stepped {came} times.", f"优化器更新了 {came} 步。")
    )


def _gradients(case: Case, f: Facts) -> Failure | None:
    for number, step in enumerate(f.steps, start=1):
        if step.off <= TOLERANCE:
            continue
        expected = t(
            f"in step {number} the gradient is that of one batch of all {step.tokens} counted"
            " tokens of the group.",
            f"第 {number} 步的梯度，"
            f"等于把这一组的 {step.tokens} 个计入损失的词元合成一个批次的梯度。",
        )
        looks = {
            "gradient.mean-of-means": t(
                "it is the mean of the micro-batches' means", "得到的是各微批次平均值的平均值"
            ),
            "gradient.last-only": t(
                "it is the gradient of the group's last micro-batch alone",
                "得到的只是这一组最后一个微批次的梯度",
            ),
            "gradient.left-over": t(
                "what the step before left is still in it", "里面还留着上一步的梯度"
            ),
            "gradient.ignored-counted": t(
                "it was divided by all positions, the ignored ones, too",
                "除以了所有位置，连不计入损失的也算上了",
            ),
            "gradient.scale": t(
                f"it points in the right direction, but is {step.times:.4g} × as long",
                f"方向正确，长度却是应有的 {step.times:.4g} 倍",
            ),
            "gradient.undivided": t(
                f"it is the sum over the tokens, {step.times:.4g} × as long as it should be: what"
                " was divided is not what the optimizer sees, or nothing was",
                f"它是各词元之和，长度是应有的 {step.times:.4g} 倍：要么没有除，"
                "要么除出来的不是优化器看到的那个",
            ),
            "gradient.missing": t(
                "there was no gradient when the optimizer stepped", "优化器更新时没有梯度"
            ),
        }.get(step.looks, t("it looks like none of the usual mistakes", "不像任何一种常见的错误"))
        distance = (
            ""
            if step.off == float("inf")
            else t(f"; off by {step.off:.2g} of its norm", f"；偏差是其范数的 {step.off:.2g}")
        )
        return Failure(step.looks, expected, looks + distance + t(".", "。"))
    return None


def _losses(case: Case, f: Facts) -> Failure | None:
    if f.losses_off <= TOLERANCE:
        return None
    return Failure(
        "losses",
        t(
            "one number per step: the mean loss over the tokens of its group, here"
            f" {f.right_losses}.",
            f"每一步返回一个数：这一组各词元损失的平均值，这里是 {f.right_losses}。",
        ),
        f.losses,
    )


def _cost(case: Case, f: Facts) -> Failure | None:
    # a micro-batch in which nothing counts may be left out
    if not sum(map(bool, case.counts)) <= f.passes <= len(case.counts):
        return Failure(
            "passes.count",
            t(
                f"{len(case.counts)} forward passes, one for each micro-batch.",
                f"{len(case.counts)} 次前向传播，每个微批次一次。",
            ),
            t(f"{f.passes} forward passes.", f"{f.passes} 次前向传播。"),
        )
    # gradients may be added up in a place of their own
    limit = f.one_peak + f.gradient_bytes + SLACK_BYTES
    if f.peak > limit:
        return Failure(
            "memory",
            t(
                f"at the most {limit:,} bytes alive: one micro-batch takes {f.one_peak:,}, however"
                " many there are in a group.",
                f"任何时刻最多 {limit:,} 字节存活：不管一组有几个微批次，只占单个微批次的"
                f" {f.one_peak:,} 字节。",
            ),
            t(
                f"{f.peak:,} bytes; all of a group in one batch would take {f.big_peak:,}.",
                f"{f.peak:,} 字节；把一组合成一个批次是 {f.big_peak:,} 字节。",
            ),
        )
    return None


def _counts(draw: Random, n: int) -> tuple[int, ...]:
    """Counted tokens of n micro-batches, no two neighbours alike."""
    found = [draw.randint(1, 16)]
    while len(found) < n:
        found.append(draw.choice([c for c in range(1, 17) if abs(c - found[-1]) > 2]))
    return tuple(found)


def draw(random: Random) -> list[Case]:
    """Uneven counts first, then a partial group, a micro-batch that counts for nothing, and a group
    larger than all there is."""
    group = random.randint(2, 4)
    full = _counts(random, 2 * group)
    partial = _counts(random, 2 * group + random.randint(1, group - 1))
    little = _counts(random, random.randint(2, 4))
    empty = list(_counts(random, group + 2))
    empty[random.randrange(group)] = 0
    seeds = [random.randint(1, 10**6) for _ in range(4)]
    return [
        Case(full, group, seed=seeds[0]),
        Case(partial, group, seed=seeds[1]),
        Case(tuple(empty), group, "empty", seed=seeds[2]),
        Case(little, len(little) + random.randint(1, 5), "any-group", seed=seeds[3]),
    ]


def _lines(_: Any) -> tuple[str, str]:
    return (
        t(
            f"In every step the gradient was that of one big batch, to {TOLERANCE:g} of its norm or"
            " better.",
            f"每一步的梯度都与整个大批次的梯度一致（偏差不超过其范数的 {TOLERANCE:g}）。",
        ),
        t(
            "Peaks are bytes of live storages beyond the model: activations, gradients and"
            " temporaries.",
            "峰值是模型之外存活的存储字节数：激活值、梯度和临时张量。",
        ),
    )


def _first(told: Any) -> Facts:
    return told[0][0]


EXERCISE = Exercise(
    check="accumulate",
    answer="accumulate",
    lab="lab03",
    run=run_cases,
    judge=judged(judge),
    columns=(
        Column(
            "tokens that count, by micro-batch",
            "各微批次计入损失的词元数",
            lambda case, _: " ".join(map(str, case.counts)),
        ),
        Column("to a group", "每组个数", lambda case, _: case.group),
        Column("optimizer steps", "优化器步数", lambda _, told: len(_first(told).steps)),
        Column(
            "peak, one micro-batch",
            "峰值：单个微批次",
            lambda _, told: f"{_first(told).one_peak:,}",
        ),
        Column("peak, yours", "峰值：你的实现", lambda _, told: f"{_first(told).peak:,}"),
        Column(
            "peak, one big batch", "峰值：整个大批次", lambda _, told: f"{_first(told).big_peak:,}"
        ),
    ),
    visible=(
        Case((24, 24, 24, 24), 2, seed=1),
        Case((30, 9, 3, 14, 16, 2), 3, seed=2),
        Case((16, 9, 3, 14, 7, 12, 5, 16), 3, seed=3),
        Case((8, 16, 0, 5, 11), 4, "empty", seed=4),
        Case((10, 4, 13), 8, "any-group", seed=5),
    ),
    draw=draw,
    lines=_lines,
    ended=ended,
)
