"""train_mixed: a loop that works, and hides what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import torch

from ....i18n import t
from ..exercise import Column
from ..verdict import Failure
from ..wrong import look
from .common import (
    Case,
    Facts,
    PartExercise,
    ended,
    first_of,
    gradient,
    loss,
    one_run,
    run_with,
    trained,
)
from .training import RATE

LINE = re.compile(r"^epoch (\d+) training loss (\S+)$", re.M)
HALF = (torch.float16, torch.bfloat16)
ROUNDED = 0.02  # of a gradient in half precision
CLOSE = 2e-5  # of a loss that is printed with six decimals and was summed in fp32


def judge(case: Case, by_rank: list[Facts], _: int) -> Failure | None:
    return first_of(
        [
            *precision(case, by_rank),
            *clipping(case, by_rank),
            *rates(case, by_rank),
            *logged(case, by_rank),
            *order(case, by_rank),
        ]
    )


def precision(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    passes = [f for facts in by_rank for f in trained(facts, case)]
    if any(f.dtype not in HALF for f in passes):
        name = str(next(f.dtype for f in passes if f.dtype not in HALF)).removeprefix("torch.")
        yield Failure(
            "dtype",
            t("--mixed: matrix products in half precision.", "--mixed：矩阵乘用半精度。"),
            t(f"they were computed in {name}.", f"实际是用 {name} 算的。"),
        )


def _rows(case: Case, by_rank: list[Facts], number: int) -> list[int]:
    return [row for facts in by_rank for row in trained(facts, case)[number].rows]


def clipping(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    updates = by_rank[0].updates
    for number, update in enumerate(updates[: case.micro_batches]):
        if update.gradient is None:
            continue
        true = gradient(update.weights, _rows(case, by_rank, number))
        want = true * min(1.0, case.clip / true.norm().item())
        if look(update.gradient, want, ROUNDED).kind == "right":
            continue
        came, norm = update.gradient.norm().item(), true.norm().item()
        aligned = (update.gradient @ true).item() > 0.9 * came * norm > 0
        criterion = "clip" if aligned else "gradient"
        yield Failure(
            criterion,
            t(
                f"update {number} uses a gradient of norm {min(norm, case.clip):.3g}: the true one"
                f" has {norm:.3g}, and clip is {case.clip:g}.",
                f"第 {number} 次更新所用梯度的范数为 {min(norm, case.clip):.3g}："
                f"真实梯度的范数是 {norm:.3g}，clip 为 {case.clip:g}。",
            ),
            t(f"its norm was {came:.3g}.", f"实际范数为 {came:.3g}。"),
        )
        return


def rates(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    total, done = case.epochs * case.micro_batches, 0
    came, want = [], []
    for update in by_rank[0].updates:
        came.append(update.rate)
        want.append(RATE * max(0.0, 1 - done / total))
        done += not update.skipped
    if any(abs(a - b) > 1e-6 for a, b in zip(came, want, strict=True)):
        yield Failure(
            "skipped",
            t(
                f"the rate moves on with the updates that are made, not with one that the scaler"
                f" skips: {_list(want)}",
                f"学习率只随真正做了的更新前进，缩放器跳过的那步不算：{_list(want)}",
            ),
            _list(came),
        )


def _list(rates: list[float]) -> str:
    return ", ".join(f"{one:.3g}" for one in rates[:5]) + " …"


def mean_loss(case: Case, by_rank: list[Facts], ranks: range, batches: range) -> float:
    """In the first epoch, as the forward passes had it."""
    found = []
    for number in batches:
        for rank in ranks:
            one = trained(by_rank[rank], case)[number]
            half = one.dtype if one.dtype in HALF else None
            found.append(loss(by_rank[rank].updates[number].weights, one.rows, half))
    return sum(found) / len(found)


def logged(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    every, batches = range(case.ranks), range(case.micro_batches)
    if len(by_rank[0].updates) < case.micro_batches:
        return
    want = mean_loss(case, by_rank, every, batches)
    lines = [LINE.findall(facts.printed) for facts in by_rank]
    expected = t(
        f"rank 0 prints `epoch 0 training loss {want:.6f}`: the mean over the epoch and all ranks.",
        f"rank 0 打印 `epoch 0 training loss {want:.6f}`：这一轮、所有 rank 的平均。",
    )
    if len(lines[0]) != case.epochs or any(lines[1:]):
        words = ", ".join(str(len(one)) for one in lines)
        yield Failure(
            "printed", expected, t(f"lines by rank: {words}.", f"各 rank 打印的行数：{words}。")
        )
        return
    try:
        came = float(lines[0][0][1])
    except ValueError:
        came = float("nan")
    if abs(came - want) <= CLOSE:
        return
    last = range(case.micro_batches - 1, case.micro_batches)
    known = {
        t("rank 0's last micro-batch", "rank 0 的最后一个微批次"): (range(1), last),
        t("rank 0's mean", "rank 0 的平均"): (range(1), batches),
        t("the last micro-batch of all ranks", "所有 rank 的最后一个微批次"): (every, last),
    }
    of = [w for w, of in known.items() if abs(came - mean_loss(case, by_rank, *of)) <= CLOSE]
    yield Failure(
        "logged", expected, f"{came:.6f}" + (t(": ", "：") + of[0] if of else "") + t(".", "。")
    )


def order(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    passes, m = trained(by_rank[0], case), case.micro_batches
    epochs = [[f.rows for f in passes[e * m : (e + 1) * m]] for e in range(case.epochs)]
    if any(a == b for a, b in zip(epochs, epochs[1:], strict=False)):
        first = ", ".join(map(str, epochs[0][0]))
        yield Failure(
            "order",
            t("each epoch reads the windows in another order.", "每一轮读文本的次序都不同。"),
            t(
                f"all {case.epochs} epochs had the same order; each began with windows {first}.",
                f"{case.epochs} 轮的次序完全一样，都从第 {first} 段开始。",
            ),
        )


def largest_norm(facts: Facts) -> float:
    return max(u.gradient.norm().item() for u in facts.updates if not u.skipped)


def steps_of_schedule(facts: Facts) -> float:
    """By the rate of the last update, and the step after it."""
    last = facts.updates[-1]
    return len(facts.updates) * (1 - last.rate / RATE) + (not last.skipped)


def draw(random: Random) -> list[Case]:
    return [
        Case(
            ranks,
            mixed=True,
            overflows=True,
            micro_batches=random.randint(4, 6),
            clip=random.choice((0.1, 0.2)),
            seed=random.getrandbits(16),
        )
        for ranks in (2, 3)
    ]


EXERCISE = PartExercise(
    check="train_mixed",
    answer="train_mixed",
    lab="lab19",
    run=run_with(one_run),
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, told: case.ranks),
        Column(
            "products in",
            "矩阵乘的精度",
            lambda case, told: str(trained(told[0][0], case)[0].dtype).removeprefix("torch."),
        ),
        Column(
            "norm of the gradient, at most",
            "梯度范数，最大",
            lambda case, told: f"{largest_norm(told[0][0]):.3g}",
        ),
        Column(
            "updates skipped",
            "跳过的更新",
            lambda case, told: sum(u.skipped for u in told[0][0].updates),
        ),
        Column(
            "steps of the schedule",
            "调度器走的步数",
            lambda case, told: f"{steps_of_schedule(told[0][0]):.0f}",
        ),
    ),
    visible=(
        Case(2, mixed=True, overflows=True, clip=0.2, micro_batches=5),
        Case(3, mixed=True, overflows=True, clip=0.1),
    ),
    draw=draw,
    ended=ended,
)
