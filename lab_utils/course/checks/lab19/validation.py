"""validate: who takes part, what the mean is a mean of, and in which mode the model is left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import torch

from ....i18n import t
from ..exercise import Column
from ..ranks import Observation
from ..verdict import Failure
from .common import Case, Facts, Forward, PartExercise, first_of, loss, one_run, run_with, trained
from .common import ended as crashed

HELD_OUT = 45  # windows, as in the script
CLOSE = 5e-6  # printed with six decimals
LINE = re.compile(r"^epoch (\d+) validation loss (\S+)$", re.M)
WAITS = ("hung", "mismatch", "left")


def judge(case: Case, by_rank: list[Facts], _: int) -> Failure | None:
    return first_of([*printed(case, by_rank), *modes(case, by_rank)])


def held_out(case: Case, rank: int) -> list[list[int]]:
    """The windows of each batch that a rank is given."""
    mine = range(case.windows + rank, case.windows + HELD_OUT, case.ranks)
    return [list(mine[i : i + case.batch]) for i in range(0, len(mine), case.batch)]


def weights_after_first_epoch(case: Case, facts: Facts) -> torch.Tensor:
    return facts.updates[len(facts.updates) // case.epochs].weights


def true_loss(case: Case, facts: Facts) -> float:
    rows = list(range(case.windows, case.windows + HELD_OUT))
    return loss(weights_after_first_epoch(case, facts), rows)


def printed(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    lines = [LINE.findall(facts.printed) for facts in by_rank]
    if len(lines[0]) != case.epochs or any(lines[1:]):
        counts = t(", ", "、").join(str(len(one)) for one in lines)
        yield Failure(
            "printed",
            t(
                "rank 0, and no other, prints `epoch N validation loss X` once an epoch.",
                "每轮由 rank 0 打印一次 `epoch N validation loss X`，其他 rank 不打印。",
            ),
            t(
                f"lines by rank: {counts}; epochs: {case.epochs}.",
                f"各 rank 的行数：{counts}；轮数：{case.epochs}。",
            ),
        )
        if not lines[0]:
            return
    try:
        came = float(lines[0][0][1])
    except ValueError:
        came = float("nan")
    weights, want = weights_after_first_epoch(case, by_rank[0]), true_loss(case, by_rank[0])
    # with dropout at work the number is another each time, and says nothing of the mean
    if abs(came - want) <= CLOSE or any(f.training for f in _validated(case, by_rank[0])):
        return
    own = [[(len(b), loss(weights, b)) for b in held_out(case, rank)] for rank in range(case.ranks)]
    by_window = [sum(n * x for n, x in one) / sum(n for n, _ in one) for one in own]
    by_batch = [sum(x for _, x in one) / len(one) for one in own]
    every = [x for one in own for _, x in one]
    known = {
        "means": (sum(by_batch) / case.ranks, sum(by_window) / case.ranks, sum(every) / len(every)),
        "one-rank": (by_window[0], by_batch[0], own[0][-1][1]),
    }
    criterion = next(
        (name for name, values in known.items() if any(abs(came - v) <= CLOSE for v in values)),
        "value",
    )
    why = {
        "means": t(
            ", which is a mean of means: short batches and ranks with fewer windows count as much"
            " as full ones",
            "，这是平均值的平均：没装满的批次、样本较少的 rank 与满的同样计权",
        ),
        "one-rank": t(", which is what rank 0 sees alone", "，这只是 rank 0 自己看到的"),
        "value": "",
    }[criterion]
    yield Failure(
        criterion,
        t(
            f"the mean over all {HELD_OUT} held-out windows: {want:.6f}.",
            f"全部 {HELD_OUT} 段验证文本的平均：{want:.6f}。",
        ),
        t(f"{came:.6f}{why}.", f"{came:.6f}{why}。"),
    )


def _validated(case: Case, facts: Facts) -> list[Forward]:
    return [f for f in facts.forwards if max(f.rows, default=0) >= case.windows]


def modes(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    for rank, facts in enumerate(by_rank):
        if any(f.training for f in _validated(case, facts)):
            yield Failure(
                "dropout",
                t(
                    "no dropout while the model is validated: the same weights give the same"
                    " number.",
                    "验证时没有 dropout：同样的权重得到同样的数。",
                ),
                t(
                    f"rank {rank} validated in training mode.",
                    f"rank {rank} 在训练模式下做了验证。",
                ),
            )
            break
    for rank, facts in enumerate(by_rank):
        passes = trained(facts, case)
        off = sum(not f.training for f in passes)
        if off:
            yield Failure(
                "mode",
                t(
                    "all of the training runs with dropout, also after the first validation.",
                    "整个训练都带 dropout，第一次验证之后也一样。",
                ),
                t(
                    f"on rank {rank}, {off} of {len(passes)} training passes had no dropout: all"
                    " those after the first validation.",
                    f"rank {rank} 的 {len(passes)} 次训练前向中有 {off} 次没有 dropout："
                    "都在第一次验证之后。",
                ),
            )
            break


def ended(seen: Observation, case: Case, moment: int) -> Failure:
    """A rank that waits in a collective which others never call is this exercise's first fault."""
    failure = crashed(seen, case, moment)
    if failure.criterion not in WAITS:
        return failure
    return Failure(
        "alone",
        t(
            "every rank makes the same collective calls in the same order.",
            "所有 rank 以同样的次序发起同样的集合通信。",
        ),
        failure.came
        + t(
            " (Nothing after it can be looked at: first mend this.)",
            "（此后的部分都看不到：请先修好这一处。）",
        ),
    )


def with_dropout(passes: list[Forward]) -> str:
    return f"{sum(one.training for one in passes)} / {len(passes)}"


def draw(random: Random) -> list[Case]:
    # 45 windows: neither the ranks nor the batches come out even
    return [
        Case(
            ranks,
            batch=random.choice((4, 7, 8)),
            seed=random.getrandbits(16),
            dropout=0.25,
            micro_batches=random.randint(2, 4),
        )
        for ranks in (2, 4)
    ]


EXERCISE = PartExercise(
    check="validate",
    answer="validate",
    lab="lab19",
    run=run_with(one_run),
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, told: case.ranks),
        Column("windows held out", "验证文本", lambda case, told: HELD_OUT),
        Column(
            "printed loss, off from one process by",
            "打印的损失与单进程相差",
            lambda case, told: (
                "< 0.00001"
                if abs(float(LINE.findall(told[0][0].printed)[0][1]) - true_loss(case, told[0][0]))
                < 1e-5
                else "> 0.00001"
            ),
        ),
        Column(
            "training passes with dropout",
            "带 dropout 的训练前向",
            lambda case, told: with_dropout(trained(told[0][0], case)),
        ),
    ),
    visible=(
        Case(2, batch=8, dropout=0.25, micro_batches=3),
        Case(4, batch=8, dropout=0.25, micro_batches=2),
    ),
    draw=draw,
    ended=ended,
)
