"""Numbers of real runs: how large the gradients of `tiny` are, and what its loss is when bf16
weights are updated in three ways. Written anew, in about five minutes on one core, by

    python -c "from lab_utils.train import numbers
    from lab_utils.widgets.number_formats import recorded
    recorded.GRADIENTS.write(numbers); recorded.RUNS.write(numbers)"

The instruments are handed in because no tool imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from ...config import TrainConfig
from ..frame.recording import Case, Recording

SEEDS = (0, 1, 2)
STEPS_BEFORE = (0, 200)
KEPT = ("master", "nearest", "stochastic")
RATES = (3e-5, 1e-4, 3e-4, 1e-3)
STEPS, LAST = 300, 30  # of a run, and how many at its end are averaged


class GradientRecording(Recording):
    """A Recording of `train.numbers.gradient_sizes`."""

    def measure(self, case: Case, train: Any) -> tuple[Any, str]:
        """Run a case for real; returns what would be kept, and the device."""
        config = TrainConfig.of("tiny", seed=case["seed"])
        return train.gradient_sizes(config, case["step"]), f"cpu, {train.THREADS} thread"


class RunRecording(Recording):
    """A Recording of `train.numbers.train_rounded`."""

    def measure(self, case: Case, train: Any) -> tuple[Any, str]:
        """Run a case for real; returns what would be kept, and the device."""
        config = run_config(case["lr"], case["seed"])
        losses, moved = train.train_rounded(config, case["kept"])
        kept = {"loss": _mean(losses[-LAST:]), "moved": _mean(moved[-LAST:])}
        return kept, f"cpu, {train.THREADS} thread"


def run_config(lr: float, seed: int) -> TrainConfig:
    """A small GPT of two layers, 8 sequences of 32 bytes a step."""
    return TrainConfig.of("tiny", layers=2, seq=32, global_batch=8, lr=lr, seed=seed, steps=STEPS)


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 4)


def _gradient_cases() -> Iterator[Case]:
    for seed, step in product(SEEDS, STEPS_BEFORE):
        yield {"seed": seed, "step": step}


def _run_cases() -> Iterator[Case]:
    for lr, kept, seed in product(RATES, KEPT, SEEDS):
        yield {"lr": lr, "kept": kept, "seed": seed}


def _nothing(*_: Any, **__: Any) -> Any:
    raise NotImplementedError  # `measure` is overridden


HERE = Path(__file__).parent
GRADIENTS = GradientRecording(HERE / "gradients.json", _gradient_cases, _nothing, _nothing)
RUNS = RunRecording(HERE / "runs.json", _run_cases, _nothing, _nothing)


@lru_cache(maxsize=32)
def gradient_sizes(what: str, step: int, seed: int = 0) -> dict[int, int]:
    """Exponent e → how many gradients lay in [2^e, 2^(e+1)) in a real run."""
    found = GRADIENTS.found(seed=seed, step=step)[what]
    return {int(exponent): count for exponent, count in found.items()}


def runs(lr: float, kept: str) -> list[dict[str, float]]:
    """Loss and share of weights moved, means of the last steps, one for each seed."""
    return [RUNS.found(lr=lr, kept=kept, seed=seed) for seed in SEEDS]
