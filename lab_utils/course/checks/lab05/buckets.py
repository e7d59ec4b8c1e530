"""Exercise 3: gradients averaged over the ranks in buckets, sent while the backward pass goes on:
the cases and the verdict."""

from __future__ import annotations

import functools
from math import inf
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import Observation, crash
from ..verdict import Failure
from ..wrong import worst
from .bucket_ranks import Case, Facts, draw, run


def judge(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """What was sent and waited for, values, how much, then when. Wrong values are named by the
    case's criterion, or else by their kind; what went well in the first step fails in the second
    for one reason."""
    tests = (_sent_at_all, _waited_for, _values, _sent_bytes, _sizes, _times)
    failure = next((failure for test in tests if (failure := test(case, facts))), None)
    if failure and step and not case.criterion:
        return failure._replace(criterion="second-step")
    return failure


def _ended(seen: Observation, case: Case, step: int) -> Failure:
    return crash(seen, "", case.criterion or ("second-step" if step else None))


def _sent_at_all(case: Case, facts: list[Facts]) -> Failure | None:
    others = sorted({op for f in facts for op in f.by_the_way})
    if others:
        return Failure(
            "buckets.only-axis",
            t("only axis.all_reduce moves data.", "只能用 axis.all_reduce 传输数据。"),
            t(
                f"data also went through {', '.join(others)}.",
                f"数据还经过了 {'、'.join(others)}。",
            ),
        )
    if not all(f.calls for f in facts):
        return Failure(
            "buckets.none",
            t("gradients travel through axis.all_reduce.", "梯度通过 axis.all_reduce 传输。"),
            t("nothing was sent.", "什么也没有发送。"),
        )
    return None


def _waited_for(_: Case, facts: list[Facts]) -> Failure | None:
    if all(c.waited < inf for f in facts for c in f.calls):
        return None
    return Failure(
        "overlap.never-waited",
        t("finish() waits for every bucket.", "finish() 要等待每一个桶。"),
        t(
            "some all-reduce was never waited for: its numbers may not be there yet.",
            "有的 all-reduce 始终没有等待：它的结果可能还没有到。",
        ),
    )


def _values(case: Case, facts: list[Facts]) -> Failure | None:
    rank, look = worst(f.look for f in facts)
    if look.kind == "right":
        return None
    f = facts[rank]
    if look.kind == "scale":
        kind = "gradient.scale"
        came = t(
            f"on rank {rank} they are {look.words(case.ranks)}.",
            f"rank {rank} 上是{look.words(case.ranks)}。",
        )
    elif f.untouched and sum(c.bytes for c in f.calls) == f.payload:
        kind = "buckets.not-returned"
        came = t(
            f"all of them travelled, but the sum never came back: rank {rank} still has its own in"
            f" {', '.join(f.untouched)}.",
            f"梯度都发出去了，但求得的和没有写回：rank {rank} 上 {'、'.join(f.untouched)}"
            " 仍是自己的值。",
        )
    elif f.untouched:
        kind = "buckets.unflushed"
        came = t(
            f"these never travelled, they are still rank {rank}'s own: {', '.join(f.untouched)}.",
            f"这些梯度没有参与通信，仍是 rank {rank} 自己的值：{'、'.join(f.untouched)}。",
        )
    else:
        kind = "gradient.nan" if look.kind == "not-finite" else "gradient.value"
        came = t(
            f"on rank {rank} they are {look.words(case.ranks)}, most of all {f.worst_name}.",
            f"rank {rank} 上{look.words(case.ranks)}，其中 {f.worst_name} 偏差最大。",
        )
    expected = t(
        "every parameter.grad is the mean over the ranks, as one process computes it for the whole"
        " batch.",
        "每个 parameter.grad 都是各 rank 的平均值，与单进程计算整个批次的结果一致。",
    )
    return Failure(case.criterion or kind, expected, came)


def _sent_bytes(case: Case, facts: list[Facts]) -> Failure | None:
    for f in facts:
        sent = sum(c.bytes for c in f.calls)
        if sent != f.payload:
            return Failure(
                "buckets.bytes",
                t(
                    f"each gradient travels once: {f.payload} bytes in a step.",
                    f"每个梯度只传一次：每步 {f.payload} 字节。",
                ),
                t(
                    f"rank {f.rank} handed over {sent} bytes.",
                    f"rank {f.rank} 交出了 {sent} 字节。",
                ),
            )
        if not f.own_gradients_left:
            return Failure(
                "buckets.only-axis",
                t("only axis.all_reduce moves data.", "只能用 axis.all_reduce 传输数据。"),
                t(
                    f"what rank {f.rank} handed over were not its own gradients: the mean came by"
                    " another way.",
                    f"rank {f.rank} 交出的不是它自己的梯度：平均值是从别处来的。",
                ),
            )
    return None


def _sizes(case: Case, facts: list[Facts]) -> Failure | None:
    f, limit = facts[0], case.bucket_bytes
    # two buckets in a row hold more than one's limit
    most, largest = 2 * f.payload // limit + 1, max(c.bytes for c in f.calls)
    if len(f.calls) > most:
        return Failure(
            "buckets.count",
            t(
                f"buckets of about {limit} bytes: at most {most} all-reduces for {f.payload}"
                " bytes.",
                f"每桶约 {limit} 字节：{f.payload} 字节最多 {most} 次 all-reduce。",
            ),
            t(
                f"{len(f.calls)} all-reduces for {f.gradients} gradients.",
                f"{f.gradients} 个梯度用了 {len(f.calls)} 次 all-reduce。",
            ),
        )
    if largest > max(limit, f.largest_parameter):
        return Failure(
            "buckets.size",
            t(
                f"no bucket holds more than {limit} bytes, unless a single gradient does.",
                f"每个桶最多装 {limit} 字节，除非单个梯度就超过了它。",
            ),
            t(
                f"one all-reduce carried {largest} of {f.payload} bytes.",
                f"全部 {f.payload} 字节中，一次 all-reduce 就发送了 {largest} 字节。",
            ),
        )
    return None


def _times(case: Case, facts: list[Facts]) -> Failure | None:
    for f in facts:
        # an only bucket is full with the last gradient
        failure = _overlap(case, f) if len(f.calls) > 1 else None
        if failure:
            return failure
    return None


def _overlap(case: Case, f: Facts) -> Failure | None:
    """Half of the buckets leave before the last gradient exists, and none is waited for; a branch
    that stays out holds up those behind it."""
    early, enough = (
        sum(c.issued < f.last_gradient for c in f.calls),
        1 if case.unused else len(f.calls) // 2,
    )
    came = t(
        f"on rank {f.rank} {f.trace()} (● a gradient exists, ▶k bucket k leaves, ◼k it is waited"
        " for).",
        f"rank {f.rank} 上：{f.trace()}（● 梯度出现，▶k 第 k 桶发出，◼k 开始等待它）。",
    )
    if early < enough and f.first_call_holds_last_gradient:
        return Failure(
            "buckets.order",
            t(
                "bucket 0 holds the gradients that appear first: those of the last layer.",
                "第 0 桶装最先出现的梯度，即最后一层的梯度。",
            ),
            t(
                "bucket 0 holds the gradient that appears last, so everything waits for it;"
                f" {came}",
                f"第 0 桶里有最后才出现的梯度，于是全都在等它；{came}",
            ),
        )
    if early < enough:
        return Failure(
            "overlap.left-late",
            t(
                "full buckets leave while the backward pass still makes gradients.",
                "反向传播还在产生梯度时，装满的桶就已发出。",
            ),
            came,
        )
    if min(f.stood_still, *(c.waited for c in f.calls)) < f.last_gradient:
        return Failure(
            "overlap.waited-early",
            t(
                "nothing is waited for before the last gradient exists.",
                "最后一个梯度出现之前，不等待任何一个桶。",
            ),
            came,
        )
    return None


def _lines(told: list[tuple[Case, Any]]) -> tuple[str, str]:
    heading = t(
        "Rank 0 in the first case, from left to right (● a gradient exists, ▶k bucket k leaves, ◼k"
        " bucket k is waited for):",
        "第一种情况下的 rank 0，从左到右（● 一个梯度出现，▶k 第 k 桶发出，◼k 开始等待第 k 桶）：",
    )
    return heading, told[0][1][0][0].trace()


def _first(told: Any) -> Facts:
    """What rank 0 saw in the first step."""
    return told[0][0]


EXERCISE = Exercise(
    check="bucketed",
    answer="Bucketed",
    lab="lab05",
    run=functools.partial(run, judge=judge),
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("parameters", "参数个数", lambda _, told: _first(told).parameters),
        Column("bucket size", "桶大小", lambda case, _: f"{case.bucket_bytes:,}"),
        Column("all-reduces", "all-reduce 次数", lambda _, told: len(_first(told).calls)),
        Column(
            "bytes in a step",
            "每步数据量",
            lambda _, told: sum(c.bytes for c in _first(told).calls),
        ),
        Column("bytes of its gradients", "梯度总字节数", lambda _, told: _first(told).payload),
        Column(
            "left before the last gradient",
            "最后一个梯度出现前已发出",
            lambda _, told: sum(c.issued < _first(told).last_gradient for c in _first(told).calls),
        ),
        Column(
            "waited for before it",
            "在那之前等待过",
            lambda _, told: sum(c.waited < _first(told).last_gradient for c in _first(told).calls),
        ),
    ),
    visible=(
        Case(3, (6, 8, 7, 9, 7, 8, 6, 9, 5), 500, seed=1),
        Case(3, (6, 8, 9, 7, 8, 5), 250, unused="everywhere", criterion="unused", seed=2),
        Case(3, (6, 8, 9, 7, 8, 5), 250, unused="one rank", criterion="unused", seed=3),
        Case(4, (5, 9, 7, 8, 6, 7), 400, criterion="any-n", seed=4),
        Case(4, (5, 9, 7), 10**6, criterion="one-bucket", seed=5),
    ),
    draw=draw,
    moments=2,
    moment=lambda step: t(f", step {step + 1}", f"、第 {step + 1} 步"),
    lines=_lines,
    ended=_ended,
)
