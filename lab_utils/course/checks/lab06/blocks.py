"""Exercise 3: ZeRO-3, each block's weights gathered before it is used, forward and backward, and
freed after: the verdict."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from random import Random
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import Observation, crash
from ..verdict import Failure
from .blocks_ranks import PHASES, Backward, Forward, Made, train
from .seen import judge_sent, judge_weights, judge_wire, same_as_one_process
from .steps import run_cases
from .training import CONTROL_BYTES, RANKS, Case, plain, uneven


def _ended(seen: Observation, case: Case, _: int) -> Failure:
    failure = crash(seen, "", case.criterion)
    killed = seen.error is not None and seen.error.cause == "killed" and not case.criterion
    return failure._replace(criterion="killed") if killed else failure


def _phase(phase: int) -> str:
    step = (phase + 1) // 2
    if phase == 0:
        return t(", just made", "、刚创建")
    return t(
        f", step {step}, {'forward' if phase % 2 else 'backward'}",
        f"、第 {step} 步的{'前向' if phase % 2 else '反向'}传播",
    )


def judge(case: Case, facts: list[Any], phase: int) -> Failure | None:
    """One phase, by its kind."""
    kinds = {Made: _judge_made, Forward: _judge_forward, Backward: _judge_backward}
    return kinds[type(facts[0])](case, facts, phase)


def _judge_made(case: Case, facts: list[Made], _: int) -> Failure | None:
    limit, worst = case.shard_bytes + case.largest_block, max(facts, key=lambda f: f.held)
    # a rank alone does not know what the others hold
    total = sum(f.shard_elements for f in facts) if len(facts) == case.ranks else inf
    if total < case.numel * case.itemsize:
        return Failure(
            "elsewhere",
            t(
                f"together the ranks' shards are all weights, {case.numel * case.itemsize:,}"
                " bytes.",
                f"各 rank 的 shards 合起来就是全部权重，{case.numel * case.itemsize:,} 字节。",
            ),
            t(f"they have {total:,} bytes.", f"合计 {total:,} 字节。"),
        )
    if worst.held <= limit:
        return None
    expected = t(
        f"a rank holds its shards, {case.shard_bytes:,} bytes, and no whole weights.",
        f"一个 rank 只持有自己的分片，{case.shard_bytes:,} 字节，没有完整的权重。",
    )
    came = t(
        f"{worst.held:,} of {case.numel * case.itemsize:,} bytes of weights are alive",
        f"全部 {case.numel * case.itemsize:,} 字节的权重中，有 {worst.held:,} 字节存活",
    )
    if worst.shard_storages > limit >= worst.shard_elements:
        return Failure(
            "shard.view",
            expected,
            came
            + t(
                f": the shards have {worst.shard_elements:,} bytes of elements, but keep"
                f" {worst.shard_storages:,} bytes of storage.",
                f"：分片只有 {worst.shard_elements:,} 字节的元素，却占着 {worst.shard_storages:,}"
                " 字节的存储。",
            ),
        )
    return Failure("made.whole", expected, came + t(".", "。"))


def _judge_forward(case: Case, facts: list[Forward], _: int) -> Failure | None:
    return _used(case, facts) or _kept_by_forward(case, facts) or _most_in_forward(case, facts)


def _used(case: Case, facts: list[Forward]) -> Failure | None:
    """Whether the weights that the blocks computed with are those of one process."""
    wrong = max(f.wrong for f in facts)
    failure = None
    if facts[0].step == 0 and wrong:
        failure = Failure(
            case.criterion or "forward.value",
            t(
                "each block computes with the weights that it had before it was cut.",
                "每一层计算时用的权重，就是切分之前的权重。",
            ),
            t(
                f"{wrong:,} of {case.numel:,} weights are others.",
                f"{case.numel:,} 个权重中有 {wrong:,} 个不一样。",
            ),
        )
    elif facts[0].step:
        failure = judge_weights(case, [f.weights for f in facts], facts[0].step - 1)
    # what has not arrived is wrong for that reason
    waited = failure and judge_sent([f.sent for f in facts])
    return waited or failure


def _kept_by_forward(case: Case, facts: list[Forward]) -> Failure | None:
    limit, worst = 3 * case.largest_block // 2, max(facts, key=lambda f: f.kept)
    kept = worst.kept - worst.plain_kept
    if kept <= limit:
        return None
    expected = t(
        "between forward and backward, beyond shards and activations, at most a block's weights:"
        f" {limit:,} bytes.",
        f"前向与反向之间，除分片和激活值外，最多只留一层的权重：{limit:,} 字节。",
    )
    if worst.resident > limit:
        return Failure(
            "forward.kept",
            expected,
            t(
                f"{kept:,} bytes are alive; the blocks' own parameters hold {worst.resident:,} of"
                " them.",
                f"有 {kept:,} 字节存活，其中 {worst.resident:,} 字节由各层自己的参数持有。",
            ),
        )
    return Failure(
        "autograd.keeps",
        expected,
        t(
            f"{kept:,} bytes are alive, although the blocks' own parameters hold only"
            f" {worst.resident:,}.",
            f"各层自己的参数只持有 {worst.resident:,} 字节，可仍有 {kept:,} 字节存活。",
        ),
    )


def _most_in_forward(case: Case, facts: list[Forward]) -> Failure | None:
    limit, most = (
        11 * case.largest_block // 4 + CONTROL_BYTES,
        max(f.most - f.plain_most for f in facts),
    )
    if most <= limit:
        return None
    return Failure(
        "forward.peak",
        t(
            f"one block's weights at a time, perhaps the next one's, too: at most {limit:,} bytes"
            " beyond activations.",
            f"每次只有一层的权重，至多再加下一层的：激活值之外不超过 {limit:,} 字节。",
        ),
        t(
            f"{most:,} bytes were there at once, of {case.numel * case.itemsize:,}.",
            f"全部 {case.numel * case.itemsize:,} 字节中，曾有 {most:,} 字节同时存在。",
        ),
    )


def _judge_backward(case: Case, facts: list[Backward], phase: int) -> Failure | None:
    # a block that goes back right after it has gone forward need not be gathered again; what the
    # first step sent too little of shows in the weights that it came to, if it matters there
    spared = case.largest_block if phase > 2 else inf
    return (
        judge_sent([f.sent for f in facts])
        or _kept_by_backward(case, facts)
        or _most_in_backward(case, facts)
        or judge_wire(case, [f.sent for f in facts], 2, spared)
    )


def _kept_by_backward(case: Case, facts: list[Backward]) -> Failure | None:
    limit, worst = case.shard_bytes + 3 * case.largest_block // 2, max(facts, key=lambda f: f.kept)
    if worst.kept <= limit:
        return None
    expected = t(
        f"after the backward pass a rank has its shards' gradients, {case.shard_bytes:,} bytes, and"
        " little else that is new.",
        f"反向传播之后，一个 rank 新增的只有分片的梯度，"
        f"{case.shard_bytes:,} 字节，此外几乎没有别的。",
    )
    came = t(
        f"{worst.kept:,} bytes more than before the step", f"比这一步之前多了 {worst.kept:,} 字节"
    )
    if worst.resident > limit - case.shard_bytes:
        return Failure(
            "backward.kept",
            expected,
            came
            + t(
                f": the blocks' weights hold {worst.resident:,}.",
                f"：各层的权重占着 {worst.resident:,} 字节。",
            ),
        )
    if not worst.whole_gradients and worst.shard_storages > limit:
        return Failure(
            "gradients.view",
            expected,
            came
            + t(
                f": the shards' gradients have {worst.shard_elements:,} bytes of elements, but keep"
                f" {worst.shard_storages:,} bytes of storage.",
                f"：分片的梯度只有 {worst.shard_elements:,} 字节的元素，却占着"
                f" {worst.shard_storages:,} 字节的存储。",
            ),
        )
    return Failure(
        "gradients.kept",
        expected,
        came
        + t(
            f"; {worst.whole_gradients} of the blocks' parameters still have their .grad.",
            f"；各层的参数中有 {worst.whole_gradients} 个的 .grad 还在。",
        ),
    )


def _most_in_backward(case: Case, facts: list[Backward]) -> Failure | None:
    limit, most = (
        case.shard_bytes + 4 * case.largest_block + CONTROL_BYTES,
        max(f.most - f.plain_most for f in facts),
    )
    if most <= limit:
        return None
    expected = t(
        "the weights and gradients of a block or two at a time, and the shards' gradients: a peak"
        f" at most {limit:,} bytes above that of a plain backward pass that keeps no gradient.",
        "每次只有一两层的权重和梯度，加上分片的梯度：峰值最多比不留梯度的普通反向传播高"
        f" {limit:,} 字节。",
    )
    return Failure(
        "backward.peak",
        expected,
        t(f"the peak was {most:,} bytes above it.", f"峰值高出 {most:,} 字节。"),
    )


def draw(random: Random) -> list[Case]:
    """Enough blocks that two of them are little, and then fewer whose sizes differ."""
    first, second = random.sample(RANKS, 2)
    return [
        plain(random, first, 12),
        uneven(random, first, random.randint(3, 5)),
        uneven(random, second, random.randint(3, 5), "any-n"),
    ]


def _column(en: str, zh: str, phase: int, bytes_of: Callable[[Any], int]) -> Column:
    """The most that any rank saw in a phase of the first step."""
    return Column(en, zh, lambda _, told: f"{max(map(bytes_of, told[phase])):,}")


EXERCISE = Exercise(
    check="zero3",
    answer="Zero3",
    lab="lab06",
    run=partial(run_cases, train, judge, PHASES),
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column(
            "weights, bytes", "全部权重（字节）", lambda case, _: f"{case.numel * case.itemsize:,}"
        ),
        Column("1/N", "1/N", lambda case, _: f"{case.numel * case.itemsize / case.ranks:,.0f}"),
        _column("held between steps", "两步之间持有", 0, lambda f: f.held),
        Column("largest block", "最大的层", lambda case, _: f"{case.largest_block:,}"),
        _column(
            "forward: peak beyond a plain one's",
            "前向：峰值比普通前向高出",
            1,
            lambda f: f.most - f.plain_most,
        ),
        _column(
            "left between forward and backward",
            "前向与反向之间多留",
            1,
            lambda f: f.kept - f.plain_kept,
        ),
        _column(
            "backward: peak beyond a plain one's",
            "反向：峰值比普通反向高出",
            2,
            lambda f: f.most - f.plain_most,
        ),
        _column(
            "reduce-scatter, payload",
            "reduce-scatter 数据量",
            2,
            lambda f: f.sent.bytes.get("reduce_scatter", 0),
        ),
        _column(
            "all-gather, payload",
            "all-gather 数据量",
            2,
            lambda f: f.sent.bytes.get("all_gather", 0),
        ),
    ),
    visible=(
        Case(3, 9, (12,) * 12, seed=1),
        Case(3, 7, (11, 8, 10, 13), "padding", gain=True, seed=2),
        Case(4, 8, (9, 13, 10, 11, 7), "any-n", gain=True, seed=3),
    ),
    draw=draw,
    moments=PHASES,
    moment=_phase,
    lines=same_as_one_process,
    ended=_ended,
)
