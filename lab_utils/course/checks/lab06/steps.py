"""What the exercises share: how a case is run on the ranks, and the bytes that a step takes when
nothing is shared out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.mesh import Mesh
from ..live import LiveStorages
from ..ranks import begin_case, saw
from ..verdict import Failure
from ..watch import watch_threads
from .axis import ShardingAxis
from .optimizers import States
from .seen import Sent, Weights
from .training import Case


@dataclass
class StepFacts:
    """What one rank saw in one step of training."""

    weights: Weights
    sent: Sent
    states: States


Train = Callable[[Any, Case, ShardingAxis], Iterator[Any]]


def run_cases(
    train: Train,
    judge: Callable[[Case, list[Any], int], Failure | None],
    moments: int,
    answer: Any,
    cases: Sequence[Case],
    patience: float,
) -> None:
    """On a rank: what train(answer, case, axis) yields in moment m of case c is told as number
    moments·c + m; when `judge` finds fault with it on some rank, all of them stop there."""
    # right before a first block, whose input needs no gradient
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    watch_threads()
    axis = ShardingAxis(Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"])
    for number, case in enumerate(cases):
        begin_case(number * moments, patience, axis)
        for moment, facts in enumerate(train(answer, case, axis)):
            saw(number * moments + moment, facts)
            if axis.anyone(judge(case, [facts], moment) is not None):
                return
            begin_case(number * moments + moment + 1, patience)


def in_step(step: int) -> str:
    """Which step, as words that follow a case's."""
    return t(f", step {step + 1}", f"、第 {step + 1} 步")


@dataclass
class Plain:
    """Bytes of a forward and a backward pass of a model that is not cut, each gradient thrown away
    as it comes.

    `kept`: alive when forward is over; `forward`, `backward`: the most in each; all beyond weights
    and batch.
    """

    kept: int
    forward: int
    backward: int

    @property
    def peak(self) -> int:
        """The most in both."""
        return max(self.forward, self.backward)

    @classmethod
    @cache  # a launch may have many answers
    def of(cls, case: Case) -> Plain:
        """Measured on a model of the case's own."""
        model, live = case.model(), LiveStorages()
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))
        x, y = case.batch(0, 0)
        live.follow([*model.parameters(), x, y])
        before = live.now()
        live.begin_peak()
        with live:
            loss = model(x, y)
        kept, forward = live.now() - before, live.peak - before
        live.begin_peak()
        with live:
            loss.backward()
        return cls(kept, forward, live.peak - before)
