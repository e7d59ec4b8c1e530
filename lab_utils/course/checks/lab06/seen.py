"""What one rank saw in one step: whether the weights are right, what was sent, and how to say what is wrong with either."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import inf, isfinite

import torch
from torch import Tensor

from ....i18n import t
from ....parallel.comm import Axis, Pending
from ....parallel.ledger import Call
from ..ranks import BrokenRule, Transfers
from ..verdict import Failure
from .training import STEPS, Case, Right

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}      # of the way that the weights moved: thirty times what another order of adding was seen to change
CONTROL_BYTES = 64      # a step may also send a number or two: a norm, a flag


@dataclass
class Weights:
    """One rank's weights against those of one process. `error`: off by this share of what they should have moved in all.

    `times`: they moved this many times as far as they should in the step, up to `times_error`. `own`: they moved by a
    single rank's gradient, not by the mean. Both only make sense for plain SGD, in the first step.
    """

    error: float
    wrong: int
    old: int            # wrong ones that are what they were before the step
    numel: int
    times: float
    times_error: float
    own: bool


@dataclass
class Sent:
    """One step's communication on one rank."""

    bytes: dict[str, int]           # payload by op
    wire_bytes: int
    never_waited: list[str]         # ops
    by_the_way: bool                # something went out that did not pass through the axis


def references_to(storage: torch.UntypedStorage) -> int:
    """Tensors and others, in Python or below it, that hold the storage."""
    return torch._C._storage_Use_Count(storage._cdata)


class _Handed(Pending):
    """Handed out in the place of a Pending: dropped without a wait, it lets the transfer end, or the next free would end the process."""

    def __init__(self, pending: Pending, apart: Callable[[], AbstractContextManager], whole: Tensor, references: int) -> None:
        super().__init__()
        self._pending, self._apart, self._storage, self._references = pending, apart, weakref.ref(whole.untyped_storage()), references

    def wait(self) -> None:
        with self._apart():
            self._pending.wait()
        self._pending._works = ()       # a work keeps its buffers
        storage, latest = self._storage(), time.perf_counter() + 0.02
        while storage is not None and references_to(storage) > self._references and time.perf_counter() < latest:
            time.sleep(0.0002)      # gloo's thread lets go a little later: what is alive must not depend on when

    def __del__(self) -> None:
        for work in self._pending._works:
            work.wait()


class WatchedAxis(Axis):
    """The real axis; a collective that was dropped without having been waited for is found before the next one hangs on it.

    What it allocates for a transfer is not the answer's: `apart()` is entered meanwhile.
    """

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis.name, axis.ranks, axis.rank, axis.group, axis.ledger)
        self._rings: list[tuple[weakref.ref[Pending], Call]] = []
        self.apart: Callable[[], AbstractContextManager] = nullcontext

    def all_gather(self, whole: Tensor, *, purpose: str, label: str = "") -> Pending:
        references = references_to(whole.untyped_storage())
        with self.apart():
            return _Handed(super().all_gather(whole, purpose=purpose, label=label), self.apart, whole, references)

    def reduce_scatter(self, whole: Tensor, *, purpose: str, label: str = "") -> tuple[Tensor, Pending]:
        references = references_to(whole.untyped_storage())
        with self.apart():
            mine, pending = super().reduce_scatter(whole, purpose=purpose, label=label)
        handed = _Handed(pending, self.apart, whole, references + 1)        # with `mine`
        self._rings.append((weakref.ref(handed), self.ledger.calls[-1]))
        return mine, handed

    def anyone(self, failed: bool) -> bool:
        """Whether the verdict is clear on some rank: then nobody goes on."""
        flag = torch.tensor(float(failed))
        self.all_reduce(flag, purpose="control", reduction="max").wait()
        return bool(flag)

    def _open(self, op: str, purpose: str, tensor: Tensor, label: str) -> Call:
        if any(pending() is None and call.wait_began is None for pending, call in self._rings):
            raise BrokenRule("never-waited", *_never_waited(["reduce_scatter"]))
        self._rings = [(pending, call) for pending, call in self._rings if call.wait_began is None]
        return super()._open(op, purpose, tensor, label)


def _never_waited(ops: Sequence[str]) -> tuple[str, str]:
    return (t("every collective is waited for before its result is used.", "使用结果之前，先等待每一次集合通信。"),
            t(f"nobody waited for {', '.join(ops)}: the numbers may not be there yet.", f"始终没有等待 {'、'.join(ops)}：结果可能还没有到。"))


def tolerance_of(case: Case) -> float:
    """How far off the weights may be; clipping by norm + 1e-6, as torch does, is as good as by the norm."""
    return max(TOLERANCE[case.dtype], 1e-5 if isfinite(case.max_norm) else 0.0)


def same_as_one_process(cases: Sequence[Case]) -> str:
    """The sentence that stands under every pass."""
    most = max(map(tolerance_of, cases))
    return t(f"After each of {STEPS} steps, every weight on every rank was one process's (to {most:g} of the way that it had moved, or better).",
             f"{STEPS} 步中的每一步之后，每个 rank 上的每个权重都与单进程一致（偏差不超过其移动距离的 {most:g}）。")


def see_weights(came: Tensor, right: Right, step: int, case: Case) -> Weights:
    """`came`: all weights, flat, after `step`."""
    start, before, want = right.weights[0], right.weights[step], right.weights[step + 1]
    moved, should = (came - before).double(), (want - before).double()
    wrong = ~((came - want).abs() <= 1e-4 * (should.abs() + should.abs().mean()))
    times = (moved @ should / (should @ should + 1e-300)).item()
    times_error = ((moved - times * should).norm() / (abs(times) * should.norm() + 1e-300)).item()
    off, way = (came - want).nan_to_num(inf, inf, inf).norm().item(), (want - start).norm().item() or 1.0     # nan compares with nothing
    return Weights(
        error=off / way, wrong=int(wrong.sum()), old=int((wrong & (came == before)).sum()), numel=came.numel(),
        times=times, times_error=times_error, own=step == 0 and case.optimizer == "sgd" and _follows_one_rank(moved, should, right.own),
    )  # fmt: skip


def _follows_one_rank(moved: Tensor, should: Tensor, own: Sequence[Tensor]) -> bool:
    """Whether each element moved by what some one rank's gradient says, divided by N or not."""
    rate = should.norm() / (sum(own) / len(own)).norm()
    close = [torch.isclose(moved, -rate * gradient.double() * share, rtol=1e-3, atol=1e-6) for gradient in own for share in (1, 1 / len(own))]
    return bool(torch.stack(close).any(0).all())


def see_sent(axis: Axis, transfers: Transfers) -> Sent:
    """What is in the axis's ledger, held against what torch.distributed was really asked for."""
    calls = axis.ledger.calls
    payload: dict[str, int] = {}
    for call in calls:
        payload[call.op] = payload.get(call.op, 0) + call.bytes
    messages = sum(1 if call.op == "send" else round(call.wire_bytes * axis.size / max(call.bytes, 1)) for call in calls if call.messages_counted)
    collectives = sum(n for op, n in transfers.count.items() if op not in ("send", "recv"))
    by_the_way = collectives != sum(not call.messages_counted for call in calls) or transfers.count.get("send", 0) > messages
    return Sent(payload, sum(call.wire_bytes for call in calls), [call.op for call in calls if call.wait_began is None], by_the_way)


def judge_sent(sent: Sequence[Sent], where: str) -> Failure | None:
    """What must hold of a transfer before any value can be trusted."""
    if any(s.by_the_way for s in sent):
        return Failure("only-axis", t("data moves through the axis, where it is counted.", "数据只通过 axis 传输，在那里计数。"),
                       t("data also moved by another way.", "还有数据走了别的途径。"), where)
    waiting = sorted({op for s in sent for op in s.never_waited})
    if waiting:
        return Failure("never-waited", *_never_waited(waiting), where)
    return None


def judge_weights(case: Case, weights: Sequence[Weights], step: int, where: str) -> Failure | None:
    """Weights that are wrong on some rank, named by what they look like in a plain first step, else by the case or the step."""
    tolerance = tolerance_of(case)
    rank = max(range(len(weights)), key=lambda r: weights[r].error)
    worst = weights[rank]
    if worst.error <= tolerance:
        return None
    expected = t("after the step every weight is, on every rank, what one process computes for the whole batch.",
                 "这一步之后，每个 rank 上的每个权重都与单进程计算整个批次的结果一致。")
    kind = "value"
    came = t(f"on rank {rank}, {worst.wrong:,} of {worst.numel:,} weights are wrong; they are off by {worst.error:.1e} of the way that they should have moved.",
             f"rank {rank} 上，{worst.numel:,} 个权重中有 {worst.wrong:,} 个不对；偏差是它们应当移动的距离的 {worst.error:.1e}。")
    if worst.wrong and all(w.wrong == w.old for w in weights):
        kind = "weights.old"
        came = t(f"on rank {rank}, {worst.old:,} of {worst.numel:,} weights are still what they were before the step.",
                 f"rank {rank} 上，{worst.numel:,} 个权重中有 {worst.old:,} 个还是这一步之前的值。")
    elif step == 0 and case.optimizer == "sgd" and all(w.times_error <= 1e-3 for w in weights):
        kind, times = "gradient.scale", f"1/{1 / worst.times:.3g}" if 0 < worst.times < 1 else f"{worst.times:.3g}"
        came = t(f"the weights moved {times} × as far as they should (N = {case.ranks}).", f"权重移动的距离是应有的 {times} 倍（N = {case.ranks}）。")
    elif all(w.own for w in weights):
        kind = "gradient.not-summed"
        came = t("each weight moved by a single rank's gradient; the other ranks' shares of the batch changed nothing.",
                 "每个权重只按某一个 rank 的梯度移动，其他 rank 的那份数据没有起作用。")
    return Failure(case.criterion or ("second-step" if step else kind), expected, came, where)


def judge_wire(case: Case, sent: Sent, gathers: int, where: str) -> Failure | None:
    """Not more than one reduce-scatter and `gathers` all-gathers of the model, every parameter padded by itself."""
    most = (1 + gathers) * (case.ranks - 1) * case.shard_bytes + 2 * CONTROL_BYTES
    if sent.wire_bytes <= most:
        return None
    ops = t(", ", "、").join(f"{op} {payload:,}" for op, payload in sorted(sent.bytes.items()))
    return Failure("traffic", t(f"at most {most:,} bytes sent by a rank: (N−1)/N of the model in a reduce-scatter, and {gathers} × that in all-gathers.",
                                f"每个 rank 最多发送 {most:,} 字节：reduce-scatter 为模型的 (N−1)/N，all-gather 为其 {gathers} 倍。"),
                   t(f"{sent.wire_bytes:,} bytes sent; payload in bytes: {ops}.", f"实发 {sent.wire_bytes:,} 字节；各次通信的数据量（字节）：{ops}。"), where)
