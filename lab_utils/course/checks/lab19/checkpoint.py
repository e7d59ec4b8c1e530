"""Checkpoint: a run that is stopped and goes on is held, number by number, against one that was
never stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import torch
import torch.distributed as dist

from ....i18n import t
from ..exercise import Column
from ..verdict import Failure
from .common import Case, Facts, PartExercise, Update, ended, first_of, run_with, trained
from .script import Part
from .watching import run_script


class Runs(NamedTuple):
    """The same run in one piece, and in two: stopped after its first epoch, and begun again."""

    whole: Facts
    before: Facts
    after: Facts


def three_runs(part: Part, case: Case, folder: Path) -> Runs:
    one, two = folder / "one", folder / "two"
    for place in (one, two):
        place.mkdir(exist_ok=True)
    overflows = case.overflows and dist.get_rank() == 0  # and the scale falls
    return Runs(
        run_script(part, case.words, one, overflows),
        run_script(part, [*case.words, "--stop-after=1"], two, overflows),
        run_script(part, case.words, two),
    )


def judge(case: Case, by_rank: list[Runs], _: int) -> Failure | None:
    return first_of([*went_on(case, by_rank), *on_disk(by_rank)])


def apart(runs: Runs) -> float:
    """The largest difference between the weights of both ways, at their last updates."""
    return (runs.whole.updates[-1].weights - runs.after.updates[-1].weights).abs().max().item()


def went_on(case: Case, by_rank: list[Runs]) -> Iterator[Failure]:
    left = (case.epochs - 1) * case.micro_batches
    done = len(trained(by_rank[0].after, case))
    if done != left:
        yield Failure(
            "epoch",
            t(
                f"a run of {case.epochs} epochs that was stopped after one has"
                f" {left} micro-batches to go.",
                f"共 {case.epochs} 轮，第一轮之后停下，还剩 {left} 个微批次。",
            ),
            t(f"after the restart it did {done}.", f"重启后做了 {done} 个。"),
        )
    if done:
        for runs in by_rank:
            yield from _state(case, runs)
        yield from _random(case, by_rank)


def _state(case: Case, runs: Runs) -> Iterator[Failure]:
    """What one rank began with after the restart, against the second epoch of the whole run."""
    whole, after = runs.whole.updates[case.micro_batches :], runs.after.updates
    was, came = whole[0], after[0]
    if not torch.equal(was.weights, came.weights):
        yield _differs("weights", t("the weights", "权重"), t("others", "另一份权重"))
    # the first rate comes back with the optimizer's state, all others with the scheduler's
    for before, then in list(zip(whole, after, strict=False))[1:]:
        if then.rate != before.rate:
            name = _number(t("the rate", "学习率"), before.rate)
            yield _differs("rate", name, f"{then.rate:.3g}")
            break
    if came.scale != was.scale:
        name = _number(t("the loss scale", "损失缩放系数"), was.scale)
        yield _differs("scale", name, f"{came.scale:.3g}")
    # where the first step after the restart is skipped, the next one tells
    first = next((update for update in after if not update.skipped), None)
    if first is not None and not any(_same_momentum(first, one) for one in whole):
        none = t("no momentum at all", "没有任何动量")
        another = none if first.momentum is None else t("another", "另一份动量")
        yield _differs("optimizer", t("SGD's momentum", "SGD 的动量"), another)


def _same_momentum(one: Update, other: Update) -> bool:
    return (
        one.momentum is not None
        and other.momentum is not None
        and torch.equal(one.momentum, other.momentum)
    )


def _number(name: str, value: float) -> str:
    return f"{name} {value:.3g}"


def _differs(criterion: str, name: str, came: str) -> Failure:
    return Failure(
        criterion,
        t(
            f"after the restart each update begins with what the run without a stop had: {name}.",
            f"重启之后，每次更新的起点都与不停机的运行一样：{name}。",
        ),
        t(f"it began with {came}.", f"实际是 {came}。"),
    )


def _random(case: Case, by_rank: list[Runs]) -> Iterator[Failure]:
    wrong = []
    for runs in by_rank:
        was = trained(runs.whole, case)[case.micro_batches]
        came = trained(runs.after, case)[0]
        wrong.append(not torch.equal(was.mask, came.mask))
    if any(wrong):
        first = [trained(runs.after, case)[0].mask for runs in by_rank]
        alike = any(torch.equal(first[0], mask) for mask in first[1:])
        ranks = t(", ", "、").join(str(r) for r, one in enumerate(wrong) if one)
        yield Failure(
            "random",
            t(
                "after the restart each rank's dropout goes on where it had stopped.",
                "重启后，每个 rank 的 dropout 都从停下的地方接着抽。",
            ),
            t(
                f"other masks than in the run without a stop on rank {ranks}"
                + (", and the same ones on several ranks." if alike else "."),
                f"与不停机的运行相比，rank {ranks} 的掩码不同"
                + ("，而且几个 rank 的掩码一模一样。" if alike else "。"),
            ),
        )


def on_disk(by_rank: list[Runs]) -> Iterator[Failure]:
    writers = Counter(path for runs in by_rank for path in {*runs.before.written})
    shared = sorted(Path(path).name for path, count in writers.items() if count > 1)
    if shared:
        yield Failure(
            "writers",
            t("a file has one writer.", "一个文件只由一个 rank 写。"),
            t(
                f"{max(writers.values())} ranks wrote to {shared[0]} at the same time.",
                f"{max(writers.values())} 个 rank 同时写 {shared[0]}。",
            ),
        )
    if any(runs.whole.in_place for runs in by_rank):
        yield Failure(
            "torn",
            t(
                "while a checkpoint is written, the one before it is still whole on the disk.",
                "写新的训练检查点时，磁盘上旧的那份仍然完好。",
            ),
            t(
                "it was written over the one before it: if the machine stops in the middle, neither"
                " is left.",
                "直接写在旧的那份上面：中途停机，新旧两份都没有了。",
            ),
        )


def in_words(difference: float) -> str:
    """So that it is the same on every machine."""
    return "0" if difference == 0 else "< 1e-6" if difference < 1e-6 else f"{difference:.2g}"


def draw(random: Random) -> list[Case]:
    return [
        Case(
            ranks,
            mixed=True,
            overflows=True,
            dropout=0.25,
            micro_batches=random.randint(3, 4),
            epochs=random.randint(2, 3),
            seed=random.getrandbits(16),
        )
        for ranks in (2, 3)
    ]


EXERCISE = PartExercise(
    check="resume",
    answer="Checkpoint",
    lab="lab19",
    run=run_with(three_runs),
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, told: case.ranks),
        Column(
            "epochs after the restart",
            "重启后的轮数",
            lambda case, told: len(trained(told[0][0].after, case)) // case.micro_batches,
        ),
        Column(
            "largest difference of the last weights",
            "最后权重的最大差别",
            # three numbers may be added in another order after a restart: two may not
            lambda case, told: in_words(max(map(apart, told[0]))),
        ),
        Column(
            "files written",
            "写出的文件",
            lambda case, told: len({p for runs in told[0] for p in runs.before.written}),
        ),
    ),
    visible=(
        Case(2, mixed=True, overflows=True, dropout=0.25),
        Case(3, mixed=True, overflows=True, dropout=0.25, epochs=3),
    ),
    draw=draw,
    ended=ended,
)
