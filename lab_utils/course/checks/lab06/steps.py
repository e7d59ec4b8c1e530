"""What the exercises share: a verdict step by step, and the bytes that a step takes when nothing is shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....i18n import t
from ..cases import first_failure
from ..live import LiveStorages
from ..ranks import Observation, crash
from ..verdict import Failure
from .optimizers import States
from .seen import Sent, Weights
from .training import STEPS, Case


@dataclass
class StepFacts:
    """What one rank saw in one step of training."""

    weights: Weights
    sent: Sent
    states: States


def examine_steps(body: Callable[..., None], answer: Any, cases: Sequence[Case],
                  judge: Callable[[Case, list[Any], int, str], Failure | None]) -> Failure | list[tuple[Case, Any]]:
    """judge(case, facts by rank, step, where) each step; the first failure, or every case with its facts[step][rank]."""

    def verdict(case: Case, step: int, facts: list[Any] | None, seen: Observation) -> Failure | None:
        where = t(f"{case}, step {step + 1}", f"{case}、第 {step + 1} 步")
        return crash(seen, where, case.criterion) if facts is None else judge(case, facts, step, where)

    return first_failure(body, answer, cases, verdict, told=STEPS)


@dataclass
class Plain:
    """Bytes of a forward and a backward pass of a model that is not cut, each gradient thrown away as it comes.

    `kept`: alive when forward is over; `forward`, `backward`: the most in each; all beyond weights and batch.
    """

    kept: int
    forward: int
    backward: int

    @property
    def peak(self) -> int:
        """The most in both."""
        return max(self.forward, self.backward)

    @classmethod
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
