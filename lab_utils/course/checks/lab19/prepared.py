"""prepare: which card a process takes, which text it reads, and which numbers it draws."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

import torch
from torch import nn

from ....i18n import t
from ..exercise import Column
from ..verdict import Failure
from .common import Case, Facts, PartExercise, ended, first_of, one_run, run_with, trained
from .script import Part
from .watching import as_script

CARDS = 2  # of each machine


def two_machines(part: Part, case: Case, folder: Path) -> Facts:
    """Two runs of the script here; and `prepare` alone, once more, on machines with two GPUs each:
    half of the ranks are on the second."""
    facts = one_run(part, case, folder)
    (folder / "again").mkdir(exist_ok=True)
    facts.again = one_run(part, case, folder / "again").forwards[0]
    rank = int(os.environ["RANK"])
    place = {"LOCAL_RANK": str(rank % CARDS), "LOCAL_WORLD_SIZE": str(CARDS)}
    with paper_gpus() as chosen, mock.patch.dict(os.environ, place):
        try:
            with as_script(part, case.words, folder, "train") as names:
                device = names["prepare"](names["parse"]())[0]
            chosen.append(torch.device(device))
            facts.device = str(chosen[-1])
        except RuntimeError as error:
            if INVALID not in str(error):
                raise
            facts.device = INVALID
    return facts


INVALID = "CUDA error: invalid device ordinal"


@contextlib.contextmanager
def paper_gpus() -> Iterator[list[torch.device]]:
    """Two GPUs as a program sees them before it computes anything on them; which it chooses."""
    chosen: list[torch.device] = []

    def choose(device: object) -> None:
        device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        if device.type == "cuda" and (device.index or 0) >= CARDS:
            raise RuntimeError(f"{INVALID} (cuda:{device.index})")
        chosen.append(device)

    def to(module: nn.Module, device: object = None, *_: object, **__: object) -> nn.Module:
        if device is not None:
            choose(device)
        return module

    with contextlib.ExitStack() as stack:
        for owner, name, new in (
            (torch.cuda, "is_available", lambda: True),
            (torch.cuda, "device_count", lambda: CARDS),
            (torch.cuda, "current_device", lambda: (chosen[-1].index or 0) if chosen else 0),
            (torch.cuda, "set_device", choose),
            (torch.cuda, "manual_seed", lambda *_: None),
            (torch.cuda, "manual_seed_all", lambda *_: None),
            (nn.Module, "to", to),
            (nn.Module, "cuda", lambda module, device=0: to(module, device)),
        ):
            stack.enter_context(mock.patch.object(owner, name, new))
        yield chosen


def judge(case: Case, by_rank: list[Facts], _: int) -> Failure | None:
    return first_of([*cards(case, by_rank), *read(case, by_rank), *drawn(case, by_rank)])


def cards(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    came = [facts.device for facts in by_rank]
    want = [f"cuda:{rank % CARDS}" for rank in range(case.ranks)]
    if came != want:
        listed = t(", ", "、").join
        yield Failure(
            "local-rank",
            t(
                f"two machines with {CARDS} GPUs each, ranks 0 to {case.ranks - 1}:"
                f" {listed(want)}.",
                f"两台机器各 {CARDS} 张 GPU，rank 0 到 {case.ranks - 1}：{listed(want)}。",
            ),
            listed(came) + t(".", "。"),
        )


def times_read(case: Case, by_rank: list[Facts]) -> Counter[int]:
    """How often each window was read in the first epoch, by all ranks together."""
    return Counter(row for facts in by_rank for f in first_epoch(case, facts) for row in f.rows)


def first_epoch(case: Case, facts: Facts) -> list:
    passes = trained(facts, case)
    return passes[: len(passes) // case.epochs]


def read(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    times = times_read(case, by_rank)
    again = sum(n - 1 for n in times.values())
    never = case.windows - len(times)
    # what does not fill a last micro-batch may stay out, or be filled up
    if again >= case.ranks or never >= case.ranks * case.batch:
        yield Failure(
            "data",
            t(
                f"in an epoch the {case.ranks} ranks together read each of the {case.windows}"
                " windows once.",
                f"一轮之内，{case.ranks} 个 rank 合起来把 {case.windows} 段文本各读一次。",
            ),
            t(
                f"{sum(times.values())} windows were read in the first epoch: {len(times)}"
                f" different ones, and {never} never.",
                f"第一轮读了 {sum(times.values())} 段：不同的只有 {len(times)} 段，"
                f"{never} 段从未读到。",
            ),
        )


def drawn(case: Case, by_rank: list[Facts]) -> Iterator[Failure]:
    masks = [trained(facts, case)[0].mask for facts in by_rank]
    if same_masks(masks) > 1:
        yield Failure(
            "masks",
            t(
                f"dropout draws {case.ranks} different masks on {case.ranks} ranks.",
                f"{case.ranks} 个 rank 的 dropout 抽出 {case.ranks} 个不同的掩码。",
            ),
            t(
                f"{same_masks(masks)} ranks drew the same mask in the first pass.",
                f"第一次前向时，{same_masks(masks)} 个 rank 抽出了一模一样的掩码。",
            ),
        )
    again = [(facts.forwards[0], facts.again) for facts in by_rank]
    if any(a.rows != b.rows or not torch.equal(a.mask, b.mask) for a, b in again):
        yield Failure(
            "seed",
            t(
                "the same seed gives the same run: text and masks.",
                "同样的种子得到同样的运行：文本和掩码都一样。",
            ),
            t("a second run with it went another way.", "用它再跑一次，结果不同。"),
        )


def same_masks(masks: list[torch.Tensor]) -> int:
    """How many ranks share the commonest mask."""
    return max(sum(torch.equal(a, b) for b in masks) for a in masks)


def draw(random: Random) -> list[Case]:
    return [
        Case(
            4,
            batch=random.randint(2, 4),
            micro_batches=random.randint(3, 5),
            over=random.randint(0, 3),
            dropout=0.25,
            seed=random.getrandbits(16),
        )
    ]


EXERCISE = PartExercise(
    check="prepare",
    answer="prepare",
    lab="lab19",
    run=run_with(two_machines),
    judge=judge,
    columns=(
        Column("ranks", "rank 数", lambda case, told: case.ranks),
        Column(
            "GPUs on two machines",
            "两台机器上的 GPU",
            lambda case, told: ", ".join(facts.device for facts in told[0]),
        ),
        Column(
            "windows read in an epoch",
            "一轮读到的文本",
            lambda case, told: f"{len(times_read(case, told[0]))} / {case.windows}",
        ),
        Column(
            "different masks",
            "不同的掩码",
            lambda case, told: (
                case.ranks - same_masks([trained(facts, case)[0].mask for facts in told[0]]) + 1
            ),
        ),
    ),
    visible=(Case(4, batch=3, over=2, dropout=0.25),),
    draw=draw,
    ended=ended,
)
