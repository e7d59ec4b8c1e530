"""Exercise 3: gradients averaged over the ranks in buckets, sent while the backward pass goes on: the cases and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....i18n import t
from ..cases import first_failure
from ..ranks import Observation, crash
from ..verdict import Failure, Measured
from .bucket_hints import HINTS
from .bucket_ranks import Case, Facts, run_cases

__all__ = ["HINTS", "TOLERANCE", "VISIBLE", "Case", "Facts", "examine", "judge"]

TOLERANCE = {"float32": 1e-6, "float64": 1e-12}        # of the gradients' global norm: what another order of adding may change
VISIBLE = (
    Case(3, (6, 8, 7, 9, 7, 8, 6, 9, 5), 500, seed=1), Case(3, (6, 8, 9, 7, 8, 5), 250, unused="everywhere", criterion="unused", seed=2),
    Case(3, (6, 8, 9, 7, 8, 5), 250, unused="one rank", criterion="unused", seed=3),
    Case(4, (5, 9, 7, 8, 6, 7), 400, criterion="any-n", seed=4), Case(4, (5, 9, 7), 10**6, criterion="one-bucket", seed=5),
)  # fmt: skip


def examine(answer: Any, cases: Sequence[Case]) -> Failure | Measured:
    """The first case and step that fails, or what was sent, and when, in each."""
    found = first_failure(run_cases, answer, cases, _verdict, told=2)
    if isinstance(found, Failure):
        return found
    rows = [("N", t("parameters", "参数个数"), t("bucket size", "桶大小"), t("all-reduces", "all-reduce 次数"),
             t("bytes in a step", "每步数据量"), t("bytes of its gradients", "梯度总字节数"),
             t("left before the last gradient", "最后一个梯度出现前已发出"), t("waited for before it", "在那之前等待过"))]
    firsts = [(case, steps[0][0]) for case, steps in found]
    rows += [(str(case.ranks), str(first.parameters), f"{case.bucket_bytes:,}", str(len(first.calls)), str(sum(c.bytes for c in first.calls)),
              str(first.payload), str(sum(c.issued < first.last_gradient for c in first.calls)),
              str(sum(c.waited < first.last_gradient for c in first.calls))) for case, first in firsts]  # fmt: skip
    return Measured(tuple(rows), (
        t("Rank 0 in the first case, from left to right (● a gradient exists, ▶k bucket k leaves, ◼k bucket k is waited for):",
          "第一种情况下的 rank 0，从左到右（● 一个梯度出现，▶k 第 k 桶发出，◼k 开始等待第 k 桶）："), firsts[0][1].trace()))  # fmt: skip


def _verdict(case: Case, step: int, facts: list[Facts] | None, seen: Observation) -> Failure | None:
    where, again = t(f"{case}, step {step + 1}", f"{case}、第 {step + 1} 步"), "second-step" if step else None
    failure = crash(seen, where, case.criterion or again) if facts is None else judge(case, facts, where)
    # what went well in the first step fails in the second for one reason
    return failure._replace(criterion=again) if failure and again and not case.criterion else failure


def judge(case: Case, facts: list[Facts], where: str) -> Failure | None:
    """Values, then what was sent, then when. Wrong values are named by the case's criterion, or else by their kind."""
    tests = (_sent_at_all, _values, _sent_bytes, _sizes, _times)
    return next((failure for test in tests if (failure := test(case, facts, where))), None)


def _sent_at_all(case: Case, facts: list[Facts], where: str) -> Failure | None:
    others = sorted({op for f in facts for op in f.by_the_way})
    if others:
        return Failure("buckets.only-axis", t("only axis.all_reduce moves data.", "只能用 axis.all_reduce 传输数据。"),
                       t(f"data also went through {', '.join(others)}.", f"数据还经过了 {'、'.join(others)}。"), where)
    if not all(f.calls for f in facts):
        return Failure("buckets.none", t("gradients travel through axis.all_reduce.", "梯度通过 axis.all_reduce 传输。"),
                       t("nothing was sent.", "什么也没有发送。"), where)
    return None


def _values(case: Case, facts: list[Facts], where: str) -> Failure | None:
    worst = max(facts, key=lambda f: f.error)
    if worst.error <= TOLERANCE[case.dtype]:
        return None
    rank = worst.rank
    if worst.ratio_error <= TOLERANCE[case.dtype]:
        times = f"{worst.ratio:.3g}" if worst.ratio >= 1 else f"1/{1 / worst.ratio:.3g}"
        kind = "gradient.scale"
        came = t(f"on rank {rank} they are {times} × the mean (N = {case.ranks}).", f"rank {rank} 上是平均值的 {times} 倍（N = {case.ranks}）。")
    elif worst.untouched and sum(c.bytes for c in worst.calls) == worst.payload:
        kind = "buckets.not-returned"
        came = t(f"all of them travelled, but the sum never came back: rank {rank} still has its own in {', '.join(worst.untouched)}.",
                 f"梯度都发出去了，但求得的和没有写回：rank {rank} 上 {'、'.join(worst.untouched)} 仍是自己的值。")
    elif worst.untouched:
        kind = "buckets.unflushed"
        came = t(f"these never travelled, they are still rank {rank}'s own: {', '.join(worst.untouched)}.",
                 f"这些梯度没有参与通信，仍是 rank {rank} 自己的值：{'、'.join(worst.untouched)}。")
    else:
        kind = "gradient.value"
        came = t(f"on rank {rank} they are off by {worst.error:.1e} of their norm, most of all {worst.worst_name}.",
                 f"rank {rank} 上偏差为其范数的 {worst.error:.1e}，其中 {worst.worst_name} 偏差最大。")
    expected = t("every parameter.grad is the mean over the ranks, as one process computes it for the whole batch.",
                 "每个 parameter.grad 都是各 rank 的平均值，与单进程计算整个批次的结果一致。")
    return Failure(case.criterion or kind, expected, came, where)


def _sent_bytes(case: Case, facts: list[Facts], where: str) -> Failure | None:
    for f in facts:
        sent = sum(c.bytes for c in f.calls)
        if sent != f.payload:
            return Failure("buckets.bytes", t(f"each gradient travels once: {f.payload} bytes in a step.", f"每个梯度只传一次：每步 {f.payload} 字节。"),
                           t(f"rank {f.rank} handed over {sent} bytes.", f"rank {f.rank} 交出了 {sent} 字节。"), where)
    return None


def _sizes(case: Case, facts: list[Facts], where: str) -> Failure | None:
    f, limit = facts[0], case.bucket_bytes
    most, largest = 2 * f.payload // limit + 1, max(c.bytes for c in f.calls)      # two buckets in a row hold more than one's limit
    if len(f.calls) > most:
        return Failure("buckets.count", t(f"buckets of about {limit} bytes: at most {most} all-reduces for {f.payload} bytes.",
                                          f"每桶约 {limit} 字节：{f.payload} 字节最多 {most} 次 all-reduce。"),
                       t(f"{len(f.calls)} all-reduces for {f.gradients} gradients.", f"{f.gradients} 个梯度用了 {len(f.calls)} 次 all-reduce。"), where)
    if largest > max(limit, f.largest_parameter):
        return Failure("buckets.size", t(f"no bucket holds more than {limit} bytes, unless a single gradient does.",
                                         f"每个桶最多装 {limit} 字节，除非单个梯度就超过了它。"),
                       t(f"one all-reduce carried {largest} of {f.payload} bytes.",
                         f"全部 {f.payload} 字节中，一次 all-reduce 就发送了 {largest} 字节。"), where)
    return None


def _times(case: Case, facts: list[Facts], where: str) -> Failure | None:
    for f in facts:
        failure = _overlap(case, f, where) if len(f.calls) > 1 else None       # an only bucket is full with the last gradient
        if failure:
            return failure
    if any(c.waited == float("inf") for f in facts for c in f.calls):
        return Failure("overlap.never-waited", t("finish() waits for every bucket.", "finish() 要等待每一个桶。"),
                       t("some all-reduce was never waited for: its numbers may not be there yet.",
                         "有的 all-reduce 始终没有等待：它的结果可能还没有到。"), where)
    return None


def _overlap(case: Case, f: Facts, where: str) -> Failure | None:
    """Half of the buckets leave before the last gradient exists, and none is waited for; a branch that stays out holds up those behind it."""
    early, enough = sum(c.issued < f.last_gradient for c in f.calls), 1 if case.unused else len(f.calls) // 2
    came = t(f"on rank {f.rank} {f.trace()} (● a gradient exists, ▶k bucket k leaves, ◼k it is waited for).",
             f"rank {f.rank} 上：{f.trace()}（● 梯度出现，▶k 第 k 桶发出，◼k 开始等待它）。")
    if early < enough and f.first_call_holds_last_gradient:
        return Failure("buckets.order", t("bucket 0 holds the gradients that appear first: those of the last layer.",
                                          "第 0 桶装最先出现的梯度，即最后一层的梯度。"),
                       t(f"bucket 0 holds the gradient that appears last, so everything waits for it; {came}",
                         f"第 0 桶里有最后才出现的梯度，于是全都在等它；{came}"), where)
    if early < enough:
        return Failure("overlap.left-late", t("full buckets leave while the backward pass still makes gradients.",
                                              "反向传播还在产生梯度时，装满的桶就已发出。"), came, where)
    if min(f.first_wait, *(c.waited for c in f.calls)) < f.last_gradient:
        return Failure("overlap.waited-early", t("nothing is waited for before the last gradient exists.",
                                                 "最后一个梯度出现之前，不等待任何一个桶。"), came, where)
    return None
