"""Exercise 3: Muon whose matrices are shared out whole over real ranks: the verdict on values, on
who worked on what, on what is kept, and on what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from math import ceil, inf
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from ..waited_axis import judge_sent
from .muon_ranks import Facts, run_cases
from .muon_rule import MIXED, SETTLED, STEPS, THICK_AND_THIN, Case, draw

SPARE = 512  # bytes of numbers that a rank may keep or send beside
UNFAIR = 4 / 3  # how far from the best split of the work; the largest first never is
MORE = 1.6  # how far FLOPs may be from the least: there are several ways to multiply

Shape = tuple[int, int]


def judge(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """Transfers and values, on every rank; then the work, the states, the wire, which are only
    known when all ranks are."""
    failure = judge_sent([f.sent for f in facts]) or _values(case, facts, step)
    if failure or len(facts) < case.ranks:
        return failure
    return _apart(facts) or _work(case, facts) or _kept(case, facts) or _wire(case, facts)


def _values(case: Case, facts: Sequence[Facts], step: int) -> Failure | None:
    rank = max(range(len(facts)), key=lambda r: facts[r].worst()[1].off)
    place, off = facts[rank].worst()
    if off.kind == "right":
        return None
    shape = "×".join(map(str, case.shapes[place]))
    expected = t(
        f"after step {step + 1} every parameter is, on every rank, what one process computes.",
        f"第 {step + 1} 步之后，每个 rank 上的每个参数都与单进程一致。",
    )
    moved = t("not zero, as it should be", "应当为零，却不是")
    words = moved if off.off == inf and off.kind == "value" else off.words(case.ranks)
    came = t(
        f"rank {rank}: the step of parameter {place}, {shape}, is {words}.",
        f"rank {rank} 上，第 {place} 个参数（{shape}）的更新：{words}。",
    )
    return Failure(_named(case, facts, step), expected, came)


def _named(case: Case, facts: Sequence[Facts], step: int) -> str:
    """The criterion for values that are wrong."""
    wrong = [[i for i, one in enumerate(f.looks) if one.kind != "right"] for f in facts]
    each = [(f, i) for f, one in zip(facts, wrong, strict=True) for i in one]
    if any(len(case.shapes[i]) < 2 for _, i in each):
        return "muon.vectors"
    if step and all("plain" in f.explained for f in facts):
        return "muon.nesterov"
    if all("rows" in f.explained for f in facts):
        return "muon.pieces"
    if all(f.looks[i].kind == "scale" and not f.old[i] for f, i in each):
        return "muon.scale"
    if case.criterion:
        return case.criterion
    if all(f.old[i] for f, i in each):
        return "muon.old"
    return "muon.momentum" if step else "muon.value"


def _apart(facts: Sequence[Facts]) -> Failure | None:
    if len({f.digest for f in facts}) == 1:
        return None
    return Failure(
        "muon.apart",
        t("the ranks' weights are equal to the last bit.", "各 rank 的权重逐位相等。"),
        t("they differ, if only by rounding.", "它们不相等，哪怕只差在舍入上。"),
    )


def owned(case: Case, found: Facts) -> dict[Shape, int]:
    """How many matrices with these sides (the smaller first) a rank orthogonalised, by the products
    (k, l)(l, k) that only they need, whichever way round. Of square ones, all of whose products
    are alike, no two in a case are of one size."""
    counts = {}
    for i in case.matrices:
        k, large = sorted(case.shapes[i])
        products = found.count[k, large, k]
        if k != large:
            products = ceil((products + found.count[large, k, large]) / len(case.coefficients))
        counts[k, large] = products if k != large else min(products, 1)
    return counts


def _left_alone(case: Case, facts: Sequence[Facts]) -> Shape | None:
    """The sides of the matrix without gradients, if nobody multiplied it: zero needs no products,
    and so its owner does not show."""
    if case.still is None:
        return None
    k, large = sorted(case.shapes[case.still])
    return None if any(owned(case, f)[k, large] for f in facts) else (k, large)


def _work(case: Case, facts: Sequence[Facts]) -> Failure | None:
    by_rank, alone = [owned(case, f) for f in facts], _left_alone(case, facts)
    needed = sum(case.work(case.shapes[i]) for i in case.matrices)
    for sides in by_rank[0]:
        if sides == alone:
            continue
        exist = sum(tuple(sorted(case.shapes[i])) == sides for i in case.matrices)
        worked = sum(one[sides] for one in by_rank)
        name = "×".join(map(str, sides))
        if worked > exist:
            return Failure(
                "muon.everybody",
                t("each matrix is orthogonalised by one rank.", "每个矩阵只由一个 rank 正交化。"),
                t(
                    f"{exist} with the sides {name} are there; {worked} were worked on, on all"
                    " ranks together.",
                    f"边长 {name} 的矩阵有 {exist} 个；各 rank 合计处理了 {worked} 个。",
                ),
            )
        if worked < exist:
            return Failure(
                "muon.unseen",
                t(
                    "each matrix goes through Newton–Schulz as it is, in products of torch.",
                    "每个矩阵以自己的形状、用 torch 的矩阵乘法做 Newton–Schulz。",
                ),
                t(
                    f"of {exist} with the sides {name}, {worked} did.",
                    f"边长 {name} 的 {exist} 个矩阵中，只有 {worked} 个如此。",
                ),
            )
    flops = sum(f.flops for f in facts)
    if flops > MORE * needed:
        return Failure(
            "muon.large-side",
            t(f"about {needed:,} FLOPs of products.", f"矩阵乘法约 {needed:,} FLOPs。"),
            f"{flops:,} FLOPs",
        )
    return _balance(case, by_rank)


def _balance(case: Case, by_rank: Sequence[dict[Shape, int]]) -> Failure | None:
    loads = [sum(n * case.work(sides) for sides, n in one.items()) for one in by_rank]
    limit = UNFAIR * best_split(case)
    if max(loads) <= limit:
        return None
    return Failure(
        "muon.balance",
        t(
            f"no rank has more than 4/3 of what the best split gives: {limit:,.0f} FLOPs.",
            f"任何 rank 的工作量都不超过最佳分配的 4/3：{limit:,.0f} FLOPs。",
        ),
        t(f"the busiest has {max(loads):,}.", f"最忙的 rank 有 {max(loads):,}。"),
    )


@lru_cache(maxsize=64)
def best_split(case: Case) -> int:
    """The least work that the busiest of the ranks can have, by trying every split."""
    works = sorted((case.work(case.shapes[i]) for i in case.matrices), reverse=True)
    splits = {(0,) * case.ranks}
    for work in works:
        splits = {
            tuple(sorted((*loads[:r], loads[r] + work, *loads[r + 1 :])))
            for loads in splits
            for r in range(case.ranks)
        }
    return min(max(loads) for loads in splits)


def _kept(case: Case, facts: Sequence[Facts]) -> Failure | None:
    alone = _left_alone(case, facts)
    for rank, f in enumerate(facts):
        mine = sum(8 * a * b * (n or (a, b) == alone) for (a, b), n in owned(case, f).items())
        if f.kept > mine + SPARE:
            return Failure(
                "muon.states",
                t(
                    f"between steps rank {rank} keeps the momentum of its own matrices, {mine:,}"
                    " bytes.",
                    f"两步之间，rank {rank} 只保留自己那些矩阵的动量，{mine:,} 字节。",
                ),
                t(f"{f.kept:,} bytes are alive.", f"有 {f.kept:,} 字节存活。"),
            )
    return None


def _wire(case: Case, facts: Sequence[Facts]) -> Failure | None:
    most, sent = (case.ranks - 1) * case.bytes, sum(f.wire for f in facts)
    if sent <= most + SPARE:
        return None
    ops = t(", ", "、").join(f"{op} {size:,}" for op, size in sorted(facts[0].sent.bytes.items()))
    return Failure(
        "muon.wire",
        t(
            f"every result goes once to each rank that lacks it: {most:,} bytes from all ranks"
            " together.",
            f"每个结果只向缺它的 rank 各发一次：所有 rank 合计 {most:,} 字节。",
        ),
        t(f"{sent:,} bytes; payload on rank 0: {ops}.", f"{sent:,} 字节；rank 0 的数据量：{ops}。"),
    )


def _most(words: Any) -> Any:
    return lambda case, told: f"{max(words(case, f) for f in told[-1]):,}"


EXERCISE = Exercise(
    check="sharded_muon",
    answer="ShardedMuon",
    lab="lab12",
    run=partial(run_cases, judge),
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("matrices", "矩阵数", lambda case, _: len(case.matrices)),
        Column(
            "owned, by rank",
            "各 rank 负责的个数",
            lambda case, told: " · ".join(str(sum(owned(case, f).values())) for f in told[-1]),
        ),
        Column("FLOPs of the busiest rank", "最忙的 rank 的 FLOPs", _most(lambda _, f: f.flops)),
        Column("best split", "最佳分配", lambda case, _: f"{best_split(case):,}"),
        Column("momentum of all, bytes", "全部动量（字节）", lambda case, _: f"{case.bytes:,}"),
        Column("kept by a rank, at most", "一个 rank 最多保留", _most(lambda _, f: f.kept)),
        Column(
            "sent by all", "所有 rank 实发", lambda _, told: f"{sum(f.wire for f in told[-1]):,}"
        ),
    ),
    visible=(
        Case(4, ((8, 12), (12,), *((8, 12),) * 7)),
        Case(4, MIXED, "muon.shapes", seed=1),
        Case(4, ((10, 14),) * 2, "muon.uneven", seed=2),
        Case(4, ((20, 3), (6, 9), (13, 7)), "muon.zero", still=1, seed=3),
        Case(3, ((8, 12),) * 7, "muon.uneven", seed=4),
        Case(3, THICK_AND_THIN, coefficients=SETTLED, seed=5),
    ),
    draw=draw,
    moments=STEPS,
    moment=lambda step: t(f", step {step + 1}", f"、第 {step + 1} 步"),
)
