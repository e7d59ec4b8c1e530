"""What the finder is tried on: models whose losses are real, or drawn by the check; and what should
come out of the losses that the model gave."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isclose, isfinite, nan
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from ....i18n import t
from .small import Log, SmallGPT

SMOOTHING, WORSE = 0.1, 2.0  # weight of a new loss; times the lowest at which the test ends
UNSURE = 5  # updates at the beginning, whose losses are hardly smoothed


class Case(NamedTuple):
    """`updates` from `low` to `high`, `group` micro-batches to each. `curve`: None leaves the
    model's own losses; else they are drawn, with `noise`, a single `spike`, an explosion or a NaN
    at some update, on one rank or on all. `criterion`: what the case is there to show if the ranks
    part company."""

    ranks: int = 1
    group: int = 2
    updates: int = 20
    low: float = 1e-3
    high: float = 1e2
    curve: str | None = None
    at: int = 0
    seed: int = 0
    criterion: str | None = None

    def __str__(self) -> str:
        words = {
            None: t("a real model", "真实模型"),
            "spike": t(f"a spike before update {self.at}", f"第 {self.at} 次更新之前有一个尖峰"),
            "early": t(f"the loss drops before update {UNSURE}", f"第 {UNSURE} 次更新之前损失骤降"),
            "explodes": t(f"explodes from update {self.at}", f"从第 {self.at} 次更新起爆炸"),
            "nan": t(f"NaN at update {self.at}", f"第 {self.at} 次更新时为 NaN"),
            "one-explodes": t(
                f"rank 1's loss explodes from update {self.at}",
                f"rank 1 的损失从第 {self.at} 次更新起爆炸",
            ),
            "one-nan": t(
                f"rank 1's loss is NaN at update {self.at}",
                f"rank 1 的损失在第 {self.at} 次更新时为 NaN",
            ),
        }[self.curve]
        return t(
            f"N = {self.ranks}, {self.group} micro-batches to an update, {words}",
            f"N = {self.ranks}，每次更新 {self.group} 个微批次，{words}",
        )

    def rates(self) -> list[float]:
        """Of all updates, if none is left out."""
        factor = self.high / self.low
        return [self.low * factor ** (i / (self.updates - 1)) for i in range(self.updates)]

    def drawn(self, rank: int) -> list[float]:
        """The losses of every micro-batch, if they are drawn."""
        random, found = Random(f"{self.seed} {rank}"), []
        # the loss falls fastest near here, and never at an end
        middle = self.updates * 0.45
        for update in range(self.updates):
            loss = 4.0 - 1.2 / (1 + 2.718 ** (middle - update)) + 0.1 * rank
            mine = not self.curve.startswith("one") or rank == 1
            if self.curve.endswith("explodes") and mine and update >= self.at:
                loss *= 2.0 ** (1.3 * (update - self.at + 1)) if rank != 1 else 5.0
            if self.curve == "early":  # the steepest fall of all is the last that does not count
                loss = 4.0 if update < UNSURE else 2.9
            if self.curve == "spike" and update == self.at:
                loss *= 5
            if self.curve.endswith("nan") and mine and update == self.at:
                loss = nan
            found += [loss + random.uniform(-0.02, 0.02) for _ in range(self.group)]
        return found


class WatchedModel(SmallGPT):
    """The small GPT; keeps every loss that it gave. Of a drawn loss the gradient is a thousandth of
    the real one's: what is drawn does not explode with the weights, so these must not either."""

    def __init__(self, case: Case, rank: int) -> None:
        super().__init__(case.seed)
        self.given: list[float] = Log()
        self.drawn = case.drawn(rank) if case.curve else []

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss = super().forward(tokens, targets)
        if self.drawn:
            number = min(len(self.given), len(self.drawn) - 1)
            loss = (loss - loss.detach()) / 1000 + self.drawn[number]
        self.given.append(loss.item())
        return loss


@dataclass
class Right:
    """What should come out of given losses: the smoothed loss before each update that should be
    made, the same without its bias correction, and whether the test should have ended there."""

    smoothed: list[float]
    biased: list[float]
    ends: bool
    not_finite: bool = False

    @property
    def ends_biased(self) -> int:
        """Losses after which the test would end if the bias were not corrected; 0: it would not."""
        found = (
            number
            for number in range(1, len(self.biased) + 1)
            if self.biased[number - 1] > WORSE * min(self.biased[:number])
        )
        return next(found, 0)

    @property
    def steepest(self) -> int:
        """The update after which the smoothed loss fell most, the first few left out."""
        falls = [after - before for before, after in pairwise(self.smoothed[UNSURE:])]
        return UNSURE + falls.index(min(falls)) if falls else 0


def right_outcome(losses: list[float]) -> Right:
    """Out of the mean losses of the updates, one by one."""
    mean, found = 0.0, Right([], [], False)
    for number, loss in enumerate(losses, 1):
        mean += SMOOTHING * (loss - mean)
        now = mean / (1 - (1 - SMOOTHING) ** number)
        if not isfinite(now) or now > WORSE * min([now, *found.smoothed]):
            found.ends, found.not_finite = True, not isfinite(now)
            return found
        found.smoothed.append(now)
        found.biased.append(mean)
    return found


def update_means(given: list[float], group: int) -> list[float]:
    """The mean loss of every whole group of micro-batches."""
    whole = len(given) // group * group
    return torch.tensor(given[:whole], dtype=torch.float64).view(-1, group).mean(1).tolist()


def grows_linearly(rates: list[float]) -> bool:
    """Whether they grow by one difference instead of one factor."""
    differences = [b - a for a, b in pairwise(rates)]
    return len(rates) > 2 and all(isclose(d, differences[0], rel_tol=1e-4) for d in differences)
