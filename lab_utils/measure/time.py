"""Seconds of a step, split into what the rank did and what it waited for."""

from __future__ import annotations

import time
from statistics import median

import torch

from ..parallel.ledger import Ledger


class StepClock:
    """Times steps one by one; `summary` is of the step with the median length.

    `begin` when the rank asks for data, `data_here` when it has it, `end` when the optimizer is
    done. Communication is what the ledger's calls were waited for, bubble what other pipeline
    stages were waited for; compute is the rest.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.steps = device, []
        self._began = self._data_here = 0.0

    def _now(self) -> float:
        if self.device.type == "cuda":  # kernels run behind the host's back
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    def begin(self) -> None:
        """A step begins."""
        self._began = self._now()

    def data_here(self) -> None:
        """The batch has arrived."""
        self._data_here = self._now()

    def end(self, ledger: Ledger, *, keep: bool) -> None:
        """The step is over; `keep` False throws it away (warm-up, or slowed by another
        instrument)."""
        ended = self._now()
        if keep:
            step, data = ended - self._began, self._data_here - self._began
            communication = ledger.exposed_seconds()
            bubble = ledger.idle_seconds
            self.steps.append(
                {
                    "compute": step - data - communication - bubble,
                    "communication": communication,
                    "bubble": bubble,
                    "data": data,
                    "step": step,
                    "hidden": ledger.hidden_seconds(),
                }
            )

    def summary(self) -> dict[str, float | None]:
        """Each part of the median step (seconds); its parts add up to it. None where no step was
        kept."""
        if not self.steps:
            return dict.fromkeys(("compute", "communication", "bubble", "data", "step", "hidden"))
        middle = median(step["step"] for step in self.steps)
        return min(self.steps, key=lambda step: abs(step["step"] - middle))
