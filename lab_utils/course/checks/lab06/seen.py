"""What one rank saw in one step: whether the weights are right, what was sent, and how to say what
is wrong with either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ..transfers import Transfers
from ..verdict import Failure
from .axis import ShardingAxis, never_waited, went_out
from .training import CONTROL_BYTES, STEPS, Case, Right

# of the way that the weights moved: thirty times what another order of adding was seen to change
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


@dataclass
class Weights:
    """One rank's weights against those of one process. `error`: off by this share of what they
    should have moved in all.

    `times`: they moved this many times as far as they should in the step, up to `times_error`.
    `own`: they moved by a single rank's gradient, not by the mean. Both only make sense for plain
    SGD, in the first step.
    """

    error: float
    wrong: int
    old: int  # wrong ones that are what they were before the step
    numel: int
    times: float
    times_error: float
    own: bool


@dataclass
class Sent:
    """One step's communication on one rank."""

    bytes: dict[str, int]  # payload by op
    wire_bytes: int  # as torch.distributed was asked for them, on whatever thread
    never_waited: list[str]  # ops
    by_the_way: bool  # something went out that did not pass through the axis


def tolerance_of(case: Case) -> float:
    """How far off the weights may be; clipping by norm + 1e-6, as torch does, is as good as by the
    norm."""
    return max(TOLERANCE[case.dtype], 1e-5 if isfinite(case.max_norm) else 0.0)


def same_as_one_process(told: Sequence[tuple[Case, Any]]) -> tuple[str]:
    """The sentence that stands under every pass."""
    most = max(tolerance_of(case) for case, _ in told)
    sentence = t(
        f"After each of {STEPS} steps, every weight on every rank was one process's (to {most:g} of"
        " the way that it had moved, or better).",
        f"{STEPS} 步中的每一步之后，每个 rank 上的每个权重都与单进程一致（偏差不超过其移动距离的"
        f" {most:g}）。",
    )
    return (sentence,)


def see_weights(came: Tensor, right: Right, step: int, case: Case) -> Weights:
    """`came`: all weights, flat, after `step`."""
    start, before, want = right.weights[0], right.weights[step], right.weights[step + 1]
    moved, should = (came - before).double(), (want - before).double()
    wrong = ~((came - want).abs() <= 1e-4 * (should.abs() + should.abs().mean()))
    times = (moved @ should / (should @ should + 1e-300)).item()
    times_error = ((moved - times * should).norm() / (abs(times) * should.norm() + 1e-300)).item()
    # nan compares with nothing
    off, way = (
        (came - want).nan_to_num(inf, inf, inf).norm().item(),
        (want - start).norm().item() or 1.0,
    )
    return Weights(
        error=off / way,
        wrong=int(wrong.sum()),
        old=int((wrong & (came == before)).sum()),
        numel=came.numel(),
        times=times,
        times_error=times_error,
        own=step == 0 and case.optimizer == "sgd" and _follows_one_rank(moved, should, right.own),
    )


def _follows_one_rank(moved: Tensor, should: Tensor, own: Sequence[Tensor]) -> bool:
    """Whether each element moved by what some one rank's gradient says, divided by N or not."""
    rate = should.norm() / (sum(own) / len(own)).norm()
    close = [
        torch.isclose(moved, -rate * gradient.double() * share, rtol=1e-3, atol=1e-6)
        for gradient in own
        for share in (1, 1 / len(own))
    ]
    return bool(torch.stack(close).any(0).all())


def see_sent(axis: ShardingAxis, transfers: Transfers) -> Sent:
    """What passed through the axis since `begin_step`, held against what torch.distributed was
    really asked for."""
    payload: dict[str, int] = {}
    for sent in axis.sent:
        payload[sent.op] = payload.get(sent.op, 0) + sent.bytes
    out = went_out(transfers, axis.size)
    by_the_way = out > sum(sent.wire_bytes for sent in axis.sent)
    return Sent(payload, out, axis.never_waited(), by_the_way)


def judge_sent(sent: Sequence[Sent]) -> Failure | None:
    """What must hold of a transfer before any value can be trusted."""
    if any(s.by_the_way for s in sent):
        return Failure(
            "only-axis",
            t(
                "data moves through the axis, where it is counted.",
                "数据只通过 axis 传输，在那里计数。",
            ),
            t("data also moved by another way.", "还有数据走了别的途径。"),
        )
    waiting = sorted({op for s in sent for op in s.never_waited})
    if waiting:
        return Failure("never-waited", *never_waited(waiting))
    return None


def judge_weights(case: Case, weights: Sequence[Weights], step: int) -> Failure | None:
    """Weights that are wrong on some rank, named by what they look like in a plain first step, else
    by the case or the step."""
    tolerance = tolerance_of(case)
    rank = max(range(len(weights)), key=lambda r: weights[r].error)
    worst = weights[rank]
    if worst.error <= tolerance:
        return None
    expected = t(
        "after the step every weight is, on every rank, what one process computes for the whole"
        " batch.",
        "这一步之后，每个 rank 上的每个权重都与单进程计算整个批次的结果一致。",
    )
    kind = "value"
    came = t(
        f"on rank {rank}, {worst.wrong:,} of {worst.numel:,} weights are wrong; they are off by"
        f" {worst.error:.1e} of the way that they should have moved.",
        f"rank {rank} 上，{worst.numel:,} 个权重中有 {worst.wrong:,}"
        f" 个不对；偏差是它们应当移动的距离的 {worst.error:.1e}。",
    )
    if worst.wrong and all(w.wrong == w.old for w in weights):
        kind = "weights.old"
        came = t(
            f"on rank {rank}, {worst.old:,} of {worst.numel:,} weights are still what they were"
            " before the step.",
            f"rank {rank} 上，{worst.numel:,} 个权重中有 {worst.old:,} 个还是这一步之前的值。",
        )
    elif step == 0 and case.optimizer == "sgd" and all(w.times_error <= 1e-3 for w in weights):
        kind, times = (
            "gradient.scale",
            f"1/{1 / worst.times:.3g}" if 0 < worst.times < 1 else f"{worst.times:.3g}",
        )
        came = t(
            f"the weights moved {times} × as far as they should (N = {case.ranks}).",
            f"权重移动的距离是应有的 {times} 倍（N = {case.ranks}）。",
        )
    elif all(w.own for w in weights):
        kind = "gradient.not-summed"
        came = t(
            "each weight moved by a single rank's gradient; the other ranks' shares of the batch"
            " changed nothing.",
            "每个权重只按某一个 rank 的梯度移动，其他 rank 的那份数据没有起作用。",
        )
    return Failure(case.criterion or ("second-step" if step else kind), expected, came)


def judge_wire(case: Case, sent: Sequence[Sent], gathers: int, spared: float = 0) -> Failure | None:
    """One reduce-scatter and `gathers` all-gathers of the model: not more, every parameter padded
    by itself; nor less, but for `spared` bytes that need not be gathered."""
    share = (case.ranks - 1) / case.ranks
    most = (1 + gathers) * (case.ranks - 1) * case.shard_bytes + 2 * CONTROL_BYTES
    least = share * ((1 + gathers) * case.numel * case.itemsize - spared)
    worst = max(sent, key=lambda s: s.wire_bytes)
    ops = t(", ", "、").join(f"{op} {payload:,}" for op, payload in sorted(worst.bytes.items()))
    if worst.wire_bytes > most:
        return Failure(
            "traffic",
            t(
                f"at most {most:,} bytes sent by a rank: (N−1)/N of the model in a reduce-scatter,"
                f" and {gathers} × that in all-gathers.",
                f"每个 rank 最多发送 {most:,} 字节："
                f"reduce-scatter 为模型的 (N−1)/N，all-gather 为其 {gathers} 倍。",
            ),
            t(
                f"{worst.wire_bytes:,} bytes sent; payload in bytes: {ops}.",
                f"实发 {worst.wire_bytes:,} 字节；各次通信的数据量（字节）：{ops}。",
            ),
        )
    # on a rank by itself it is not known what the others sent
    mean = sum(s.wire_bytes for s in sent) / len(sent)
    if len(sent) == case.ranks and mean < least:
        return Failure(
            "traffic.less",
            t(
                f"at least {least:,.0f} bytes sent by a rank: what is not its own can only have"
                " come from the others.",
                f"每个 rank 至少发送 {least:,.0f} 字节：不属于自己的部分，只能来自其他 rank。",
            ),
            t(
                f"{mean:,.0f} bytes sent; payload in bytes: {ops}.",
                f"实发 {mean:,.0f} 字节；各次通信的数据量（字节）：{ops}。",
            ),
        )
    return None
