"""Exercise 2: all-reduce around a ring, with uneven chunks and any operation, over messages between
neighbours alone."""

from __future__ import annotations

from math import prod
from random import Random

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from .ring_ranks import Case, Facts, run


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """The value first, then how it came about; None if all is as it should be."""
    n, numel = case.ranks, prod(case.shape)
    wrong = next((rank for rank, f in enumerate(facts) if f.first_wrong), None)
    if wrong is not None:
        return _wrong_value(case, facts, wrong)
    others = {op for f in facts for op in f.by_the_way}
    if others:
        return Failure(
            "ring.only-exchange",
            t("only axis.exchange moves data.", "只能用 axis.exchange 传输数据。"),
            t(
                f"data also went through {', '.join(sorted(others))}.",
                f"数据还经过了 {'、'.join(sorted(others))}。",
            ),
        )
    sent, least = sum(f.bytes for f in facts), 2 * (n - 1) * case.payload
    if sent != least:
        return Failure(
            "ring.bytes",
            t(
                f"{least} bytes from all ranks together: 2(N−1)/N of {case.payload} bytes from"
                " each, on average.",
                f"所有 rank 合计发送 {least} 字节："
                f"平均每个 rank 发送 {case.payload} 字节的 2(N−1)/N。",
            ),
            t(
                f"{sent} bytes, in messages of up to {_longest(facts)} elements.",
                f"合计 {sent} 字节，最长的消息有 {_longest(facts)} 个元素。",
            ),
        )
    if _longest(facts) > -(-numel // n):
        return Failure(
            "ring.bytes",
            t(
                f"no message is longer than a chunk: {-(-numel // n)} elements.",
                f"任何消息都不超过一块：{-(-numel // n)} 个元素。",
            ),
            t(f"one has {_longest(facts)} elements.", f"有一条消息长达 {_longest(facts)} 个元素。"),
        )
    if numel >= n and _count(facts) != 2 * (n - 1):
        return Failure(
            "ring.messages",
            t(
                f"{2 * (n - 1)} messages per rank, one chunk in each step.",
                f"每个 rank {2 * (n - 1)} 条消息，每步一块。",
            ),
            t(f"up to {_count(facts)} messages.", f"最多的一个 rank 发了 {_count(facts)} 条。"),
        )
    carried = min(f.carried for f in facts)
    if numel >= n and carried < n - 1:
        return Failure(
            "ring.only-exchange",
            t("only axis.exchange moves data.", "只能用 axis.exchange 传输数据。"),
            t(
                f"a rank received {carried} pieces of the result in its messages, not {n - 1}: the"
                " numbers came by another way.",
                f"有一个 rank 收到的消息里只有 {carried} 段结果，而不是 {n - 1}"
                " 段：数据是从别处来的。",
            ),
        )
    return None


def _wrong_value(case: Case, facts: list[Facts], rank: int) -> Failure:
    numel = prod(case.shape)
    in_place = t("the tensor that was passed in holds the result.", "结果写回传入的张量本身。")
    if all(f.unchanged for f in facts) and _count(facts) > 0:
        return Failure(
            "ring.in-place",
            in_place,
            t(
                "messages were exchanged, but that tensor is just as it was before.",
                "消息都交换过了，传入的张量却和原来一模一样。",
            ),
        )
    if all(f.returned_right for f in facts):
        return Failure(
            "ring.in-place",
            in_place,
            t(
                "the result is in the tensor that you return; the one passed in has other numbers.",
                "结果只在你返回的张量里，传入的张量并没有变成结果。",
            ),
        )
    if (
        case.criterion is None
        and _count(facts) == case.ranks - 1
        and min(f.right for f in facts) > 0
    ):
        return Failure(
            "ring.half",
            t(
                f"all {numel} elements complete on every rank.",
                f"每个 rank 上的 {numel} 个元素全部完成归约。",
            ),
            t(
                f"after {case.ranks - 1} messages the code stops; rank {rank} holds"
                f" {facts[rank].right} complete elements.",
                f"发送 {case.ranks - 1} 条消息后就停下了，rank {rank} 上只有 {facts[rank].right}"
                " 个元素是完整结果。",
            ),
        )
    index, expected, came = facts[rank].first_wrong
    return Failure(
        case.criterion or "value",
        t(
            f"element {index} on rank {rank} is {expected}.",
            f"rank {rank} 的第 {index} 个元素应为 {expected}。",
        ),
        t(
            f"it is {came}; {numel - facts[rank].right} of {numel} elements are wrong on this"
            " rank.",
            f"得到 {came}；这个 rank 上 {numel} 个元素中有 {numel - facts[rank].right} 个不对。",
        ),
    )


def _count(facts: list[Facts]) -> int:
    """Messages with anything in them, of the rank that sent most."""
    return max(sum(numel > 0 for _, numel in f.messages) for f in facts)


def _longest(facts: list[Facts]) -> int:
    return max((numel for f in facts for _, numel in f.messages), default=0)


def draw(random: Random) -> list[Case]:
    """Per number of ranks: a plain case first, so that a general mistake is not taken for a special
    one. (At N = 2 a ring and a gather-and-sum send the same bytes, and left is right.)"""
    cases = []
    for n in (3, 4):
        dtype = random.choice(["float32", "float64", "int64"])
        shapes = [
            ((n * random.randint(2, 6),), None, "add"),
            ((n * random.randint(2, 9) + random.randint(1, n - 1),), "uneven", "add"),
            ((random.randint(1, n - 1),), "few", "add"),
            ((random.randint(2, 5), random.randint(2, 5), 3), "shape", "add"),
        ]
        for operation in random.sample(["maximum", "minimum", "multiply"], 2):
            shapes.append(((random.randint(n, 40),), "combine", operation))
        cases += [Case(n, *shape, dtype, seed=random.randint(1, 10**6)) for shape in shapes]
    return cases


def _bytes(_: Case, told: list[list[Facts]]) -> str:
    least, most = min(f.bytes for f in told[0]), max(f.bytes for f in told[0])
    return str(least) if least == most else f"{least}–{most}"


EXERCISE = Exercise(
    check="ring_all_reduce",
    answer="ring_all_reduce",
    lab="lab05",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("elements", "元素数", lambda case, _: "×".join(map(str, case.shape))),
        Column("operation", "运算", lambda case, _: case.operation),
        Column("messages with content", "非空消息数", lambda _, told: _count(told[0])),
        Column("2(N−1)", "2(N−1)", lambda case, _: 2 * (case.ranks - 1)),
        Column("bytes sent by a rank", "每个 rank 发送的字节数", _bytes),
        Column(
            "2(N−1)/N × payload",
            "2(N−1)/N × 数据量",
            lambda case, _: f"{2 * (case.ranks - 1) / case.ranks * case.payload:.4g}",
        ),
    ),
    visible=(
        Case(4, (12,)),
        Case(4, (9,), "uneven"),
        Case(4, (3,), "few"),
        Case(4, (10,), "combine", "maximum"),
        Case(4, (3, 5), "shape"),
        Case(3, (12,), "any-n"),
        Case(3, (7,), "uneven"),
        Case(3, (2,), "few"),
        Case(3, (8,), "combine", "minimum", "int64"),
    ),
    draw=draw,
)
