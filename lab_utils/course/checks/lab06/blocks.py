"""Exercise 3: ZeRO-3, each block's weights gathered before it is used, forward and backward, and freed after: the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....i18n import t
from ..cases import first_failure
from ..ranks import Observation, crash
from ..verdict import Failure, Measured
from .blocks_hints import HINTS
from .blocks_ranks import PHASES, Backward, Forward, Made, run_cases
from .seen import CONTROL_BYTES, judge_sent, judge_weights, judge_wire, same_as_one_process
from .training import Case

__all__ = ["HINTS", "VISIBLE", "Case", "examine"]

VISIBLE = (
    Case(3, 9, (12,) * 12, seed=1), Case(3, 7, (11, 8, 10, 13), "padding", gain=True, seed=2),
    Case(4, 8, (9, 13, 10, 11, 7), "any-n", gain=True, seed=3),
)  # fmt: skip


def examine(answer: Any, cases: Sequence[Case]) -> Failure | Measured:
    """The first case and phase that fails, or what was held and sent in each."""
    found = first_failure(run_cases, answer, cases, _verdict, judge, told=PHASES)
    if isinstance(found, Failure):
        return found
    rows = [("N", t("weights, bytes", "全部权重（字节）"), "1/N", t("held between steps", "两步之间持有"), t("largest block", "最大的块"),
             t("forward: peak beyond a plain one's", "前向：峰值比普通前向高出"), t("left between forward and backward", "前向与反向之间多留"),
             t("backward: peak beyond a plain one's", "反向：峰值比普通反向高出"), t("reduce-scatter, payload", "reduce-scatter 数据量"),
             t("all-gather, payload", "all-gather 数据量"))]
    rows += [_row(case, *phases[:3]) for case, phases in found]
    return Measured(tuple(rows), (same_as_one_process(cases),))


def _verdict(case: Case, phase: int, facts: list[Any] | None, seen: Observation) -> Failure | None:
    where = f"{case}{_phase(phase)}"
    return _crash(seen, where, case) if facts is None else judge(case, facts, where)


def _crash(seen: Observation, where: str, case: Case) -> Failure:
    failure = crash(seen, where, case.criterion)
    return failure._replace(criterion="killed") if seen.error is not None and seen.error.cause == "killed" and not case.criterion else failure


def _phase(phase: int) -> str:
    step = (phase + 1) // 2
    if phase == 0:
        return t(", just made", "、刚创建")
    return t(f", step {step}, {'forward' if phase % 2 else 'backward'}", f"、第 {step} 步的{'前向' if phase % 2 else '反向'}传播")


def _row(case: Case, made: list[Made], forward: list[Forward], backward: list[Backward]) -> tuple[str, ...]:
    payload = backward[0].sent.bytes
    weights = case.numel * case.itemsize
    return (str(case.ranks), f"{weights:,}", f"{weights / case.ranks:,.0f}", f"{max(f.held for f in made):,}", f"{case.largest_block:,}",
            f"{max(f.most - f.plain_most for f in forward):,}", f"{max(f.kept - f.plain_kept for f in forward):,}",
            f"{max(f.most - f.plain_most for f in backward):,}", f"{payload.get('reduce_scatter', 0):,}", f"{payload.get('all_gather', 0):,}")


def judge(case: Case, facts: list[Any], where: str) -> Failure | None:
    """One phase, by its kind."""
    return {Made: _judge_made, Forward: _judge_forward, Backward: _judge_backward}[type(facts[0])](case, facts, where)


def _judge_made(case: Case, facts: list[Made], where: str) -> Failure | None:
    limit, worst = case.shard_bytes + case.largest_block, max(facts, key=lambda f: f.held)
    if worst.held <= limit:
        return None
    expected = t(f"a rank holds its shards, {case.shard_bytes:,} bytes, and no whole weights.",
                 f"一个 rank 只持有自己的分片，{case.shard_bytes:,} 字节，没有完整的权重。")
    came = t(f"{worst.held:,} of {case.numel * case.itemsize:,} bytes of weights are alive",
             f"全部 {case.numel * case.itemsize:,} 字节的权重中，有 {worst.held:,} 字节存活")
    if worst.shard_storages > limit >= worst.shard_elements:
        return Failure("shard.view", expected, came + t(
            f": the shards have {worst.shard_elements:,} bytes of elements, but keep {worst.shard_storages:,} bytes of storage.",
            f"：分片只有 {worst.shard_elements:,} 字节的元素，却占着 {worst.shard_storages:,} 字节的存储。"), where)
    return Failure("made.whole", expected, came + t(".", "。"), where)


def _judge_forward(case: Case, facts: list[Forward], where: str) -> Failure | None:
    return _used(case, facts, where) or _kept_by_forward(case, facts, where) or _most_in_forward(case, facts, where)


def _used(case: Case, facts: list[Forward], where: str) -> Failure | None:
    """Whether the weights that the blocks computed with are those of one process."""
    wrong = max(f.wrong for f in facts)
    failure = None
    if facts[0].step == 0 and wrong:
        failure = Failure(case.criterion or "forward.value", t("each block computes with the weights that it had before it was cut.",
                                                               "每个块计算时用的权重，就是切分之前的权重。"),
                          t(f"{wrong:,} of {case.numel:,} weights are others.", f"{case.numel:,} 个权重中有 {wrong:,} 个不一样。"), where)
    elif facts[0].step:
        failure = judge_weights(case, [f.weights for f in facts], facts[0].step - 1, where)
    waited = failure and judge_sent([f.sent for f in facts], where)      # what has not arrived is wrong for that reason
    return waited or failure


def _kept_by_forward(case: Case, facts: list[Forward], where: str) -> Failure | None:
    limit, worst = 3 * case.largest_block // 2, max(facts, key=lambda f: f.kept)
    kept = worst.kept - worst.plain_kept
    if kept <= limit:
        return None
    expected = t(f"between forward and backward, beyond shards and activations, at most a block's weights: {limit:,} bytes.",
                 f"前向与反向之间，除分片和激活值外，最多只留一个块的权重：{limit:,} 字节。")
    if worst.resident > limit:
        return Failure("forward.kept", expected, t(f"{kept:,} bytes are alive; the blocks' own parameters hold {worst.resident:,} of them.",
                                                   f"有 {kept:,} 字节存活，其中 {worst.resident:,} 字节由各块自己的参数持有。"), where)
    return Failure("autograd.keeps", expected, t(f"{kept:,} bytes are alive, although the blocks' own parameters hold only {worst.resident:,}.",
                                                 f"各块自己的参数只持有 {worst.resident:,} 字节，可仍有 {kept:,} 字节存活。"), where)


def _most_in_forward(case: Case, facts: list[Forward], where: str) -> Failure | None:
    limit, most = 11 * case.largest_block // 4 + CONTROL_BYTES, max(f.most - f.plain_most for f in facts)
    if most <= limit:
        return None
    return Failure("forward.peak", t(f"one block's weights at a time, perhaps the next one's, too: at most {limit:,} bytes beyond activations.",
                                     f"每次只有一个块的权重，至多再加下一个块的：激活值之外不超过 {limit:,} 字节。"),
                   t(f"{most:,} bytes were there at once, of {case.numel * case.itemsize:,}.",
                     f"全部 {case.numel * case.itemsize:,} 字节中，曾有 {most:,} 字节同时存在。"), where)


def _judge_backward(case: Case, facts: list[Backward], where: str) -> Failure | None:
    return (judge_sent([f.sent for f in facts], where) or _kept_by_backward(case, facts, where) or _most_in_backward(case, facts, where)
            or next((failure for f in facts if (failure := judge_wire(case, f.sent, 2, where))), None))


def _kept_by_backward(case: Case, facts: list[Backward], where: str) -> Failure | None:
    limit, worst = case.shard_bytes + 3 * case.largest_block // 2, max(facts, key=lambda f: f.kept)
    if worst.kept <= limit:
        return None
    expected = t(f"after the backward pass a rank has its shards' gradients, {case.shard_bytes:,} bytes, and little else that is new.",
                 f"反向传播之后，一个 rank 新增的只有分片的梯度，{case.shard_bytes:,} 字节，此外几乎没有别的。")
    came = t(f"{worst.kept:,} bytes more than before the step", f"比这一步之前多了 {worst.kept:,} 字节")
    if worst.resident > limit - case.shard_bytes:
        return Failure("backward.kept", expected, came + t(f": the blocks' weights hold {worst.resident:,}.",
                                                           f"：各块的权重占着 {worst.resident:,} 字节。"), where)
    if not worst.whole_gradients and worst.shard_storages > limit:
        return Failure("gradients.view", expected, came + t(
            f": the shards' gradients have {worst.shard_elements:,} bytes of elements, but keep {worst.shard_storages:,} bytes of storage.",
            f"：分片的梯度只有 {worst.shard_elements:,} 字节的元素，却占着 {worst.shard_storages:,} 字节的存储。"), where)
    return Failure("gradients.kept", expected, came + t(f"; {worst.whole_gradients} of the blocks' parameters still have their .grad.",
                                                        f"；各块的参数中有 {worst.whole_gradients} 个的 .grad 还在。"), where)


def _most_in_backward(case: Case, facts: list[Backward], where: str) -> Failure | None:
    limit, most = case.shard_bytes + 4 * case.largest_block + CONTROL_BYTES, max(f.most - f.plain_most for f in facts)
    if most <= limit:
        return None
    expected = t(f"the weights and gradients of a block or two at a time, and the shards' gradients: a peak at most {limit:,} bytes above that of a "
                 "plain backward pass that keeps no gradient.",
                 f"每次只有一两个块的权重和梯度，加上分片的梯度：峰值最多比不留梯度的普通反向传播高 {limit:,} 字节。")
    return Failure("backward.peak", expected, t(f"the peak was {most:,} bytes above it.", f"峰值高出 {most:,} 字节。"), where)
