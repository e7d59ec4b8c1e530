"""train_epoch: what goes over the wire, when the rate moves, and what becomes of the last group."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ....i18n import t
from ..exercise import Column
from ..verdict import Failure
from ..wrong import look
from .common import (
    FLOAT,
    Case,
    Facts,
    PartExercise,
    Update,
    ended,
    first_of,
    gradient,
    groups,
    one_run,
    run_with,
    trained,
)

RATE = 0.5
CLOSE = 1e-3  # fp32, sums in another order


def judge(case: Case, by_rank: list[Facts], _: int) -> Failure | None:
    return first_of([*wire(case, by_rank), *rate(case, by_rank), *values(case, by_rank)])


def shape(case: Case) -> tuple[int, int, int]:
    """(full groups of an epoch, micro-batches in its last group, updates of the run)."""
    full, rest = divmod(case.micro_batches, case.accumulate)
    return full, rest or case.accumulate, case.epochs * (full + (rest > 0))


def sent(case: Case, facts: Facts) -> float:
    """Bytes of gradients for one update of a full group, as a multiple of the gradients."""
    full = facts.updates[: shape(case)[0]]
    most = max((update.sent for update in full), default=0)
    return most / (FLOAT * facts.updates[0].weights.numel()) if full else 0.0


def wire(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    times = max(sent(case, facts) for facts in by_rank)
    expected = t(
        "each update sends the gradients once, however many micro-batches it is made of.",
        "无论由几个微批次组成，每次更新只发送一份梯度。",
    )
    if times > 1.5:
        yield Failure(
            "every-micro",
            expected,
            t(
                f"{times:.2f} × the gradients went into all-reduce for one update of"
                f" {case.accumulate} micro-batches.",
                f"{case.accumulate} 个微批次的一次更新，"
                f"送进 all-reduce 的是梯度的 {times:.2f} 倍。",
            ),
        )
    first = [facts.updates[0] for facts in by_rank if facts.updates]
    if any(look(u.gradient, first[0].gradient, CLOSE).kind != "right" for u in first[1:]):
        yield Failure(
            "not-summed",
            expected,
            t(
                "the ranks went into their first update with different gradients.",
                "各 rank 带着不同的梯度进入第一次更新。",
            ),
        )


def rate(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    full, _, total = shape(case)
    updates = by_rank[0].updates
    # whoever loses the last group has fewer updates, but the first ones are as they should be
    judged = updates if len(updates) == total else updates[:full]
    came = [update.rate for update in judged]
    want = [RATE * (1 - number / total) for number in range(len(came))]
    if any(abs(a - b) > 1e-6 for a, b in zip(came, want, strict=True)):
        yield Failure(
            "rate",
            t(
                f"the rate falls by one step of {total} at each update: {_list(want)}",
                f"每次更新，学习率下降一步，共 {total} 步：{_list(want)}",
            ),
            _list(came),
        )


def _list(rates: list[float]) -> str:
    return ", ".join(f"{one:.3g}" for one in rates[:6]) + (" …" if len(rates) > 6 else "")


def values(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    full, last, total = shape(case)
    by_update = [groups(facts) for facts in by_rank]
    if min(map(len, by_update)) < full:
        yield _lost(case, by_rank)
        return
    earlier = None
    for number in range(full):
        wrong = [*_group(case, [one[number] for one in by_update], earlier, "value")]
        yield from wrong
        if wrong:  # and so are all after it
            return
        earlier = by_update[0][number][0]
    if len(by_rank[0].updates) != total or len(trained(by_rank[0], case)) != (
        case.epochs * case.micro_batches
    ):
        yield _lost(case, by_rank)
        return
    if last < case.accumulate:
        yield from _group(case, [one[full] for one in by_update], earlier, "last-scale")
        earlier = by_update[0][full][0]
    if case.epochs > 1:
        after = total // case.epochs
        yield from _group(case, [one[after] for one in by_update], earlier, "value")


def _lost(case: Case, by_rank: list[Facts]) -> Failure:
    _, last, total = shape(case)
    done = len(by_rank[0].updates)
    passes = len(trained(by_rank[0], case))
    return Failure(
        "last-group",
        t(
            f"{case.epochs} epochs of {case.micro_batches} micro-batches make {total} updates: the"
            f" last group of each epoch is made of {last}.",
            f"{case.epochs} 轮、每轮 {case.micro_batches} 个微批次，应有 {total} 次更新；"
            f"每轮最后一组有 {last} 个微批次。",
        ),
        t(
            f"{done} updates from {passes} micro-batches.",
            f"{passes} 个微批次，只做了 {done} 次更新。"
            if done < total
            else f"{passes} 个微批次，做了 {done} 次更新。",
        ),
    )


def _group(
    case: Case, by_rank: list[tuple[Update, list]], earlier: Update | None, criterion: str
) -> Iterator[Failure]:
    update = by_rank[0][0]
    rows = [row for _, passes in by_rank for one in passes for row in one.rows]
    want = gradient(update.weights, rows)
    seen = look(update.gradient, want, CLOSE)
    if seen.kind == "right":
        return
    if (
        earlier is not None
        and look(update.gradient - earlier.gradient, want, CLOSE).kind == "right"
    ):
        yield Failure(
            "left-over",
            t("each update begins with gradients of zero.", "每次更新都从零梯度开始累积。"),
            t(
                "the gradient of one update still had that of the update before in it.",
                "一次更新的梯度里还留着上一次更新的梯度。",
            ),
        )
        return
    size = len(by_rank[0][1])
    yield Failure(
        criterion,
        t(
            f"the gradient of an update is the mean over its {len(rows)} windows of text: of"
            f" {size} {'micro-batch' if size == 1 else 'micro-batches'}, of all ranks.",
            f"一次更新的梯度是它用到的 {len(rows)} 段文本的平均：{size} 个微批次，所有 rank。",
        ),
        t("it was ", "它") + seen.words(case.ranks) + t(".", "。"),
    )


def draw(random: Random) -> list[Case]:
    cases = []
    for ranks in (2, 3):
        k = random.randint(3, 4)
        micro = 2 * k + random.randint(1, k - 1)
        cases.append(
            Case(ranks, random.randint(2, 4), k, micro, seed=random.getrandbits(16), over=1)
        )
    return cases


EXERCISE = PartExercise(
    check="train_epoch",
    answer="train_epoch",
    lab="lab19",
    run=run_with(one_run),
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, told: case.ranks),
        Column("micro-batches", "微批次", lambda case, told: case.micro_batches * case.epochs),
        Column("updates", "更新次数", lambda case, told: len(told[0][0].updates)),
        Column(
            "gradients sent per update",
            "每次更新发送的梯度",
            lambda case, told: f"{sent(case, told[0][0]):.2f} ×",
        ),
        Column(
            "last rate", "最后的学习率", lambda case, told: f"{told[0][0].updates[-1].rate:.3g}"
        ),
    ),
    visible=(Case(2, accumulate=3, micro_batches=8), Case(3, accumulate=4, micro_batches=9)),
    draw=draw,
    ended=ended,
)
