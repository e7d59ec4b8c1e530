"""Records what lesson 12 and its tool show of training, in about nine minutes of one core:

    python -m lab_utils.course.optimizers.recorded

Three parts. The race: every optimizer of the engine with five learning rates, three seeds each;
then each at the best of its rates with three seeds that had no part in choosing it. Weight decay,
decoupled and as L2, on text that is met once; and decoupled, on a few batches that come round ten
times.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from ...config import TrainConfig
from ...widgets.optimizers import recorded as kept_there
from ...widgets.optimizers.recorded import BASE, BIN, FILE, FRESH, RATES, SEEDS, Run, race

DECAYS = (0.0, 0.1, 0.5, 2.0)
DECAY_RATE = 0.003
ROUND = 20  # batches that come round again, where text is repeated
Case = dict[str, Any]  # flags of TrainConfig but for the seed; `repeat` is trial's


def cases() -> Iterator[tuple[str, Case]]:
    """Every row that does not depend on another, and what it runs."""
    for optimizer, rates in RATES.items():
        for rate in rates:
            yield race(optimizer, rate), BASE | dict(optimizer=optimizer, lr=rate)
    for decay in DECAYS:
        more = dict(lr=DECAY_RATE, weight_decay=decay)
        yield f"decay adamw {decay}", BASE | more | dict(optimizer="adamw")
        yield f"decay repeated {decay}", BASE | more | dict(optimizer="adamw", repeat=ROUND)
        if decay:
            yield f"decay adam {decay}", BASE | more | dict(optimizer="adam")


def fresh_cases(best_rates: dict[str, float]) -> Iterator[tuple[str, Case]]:
    """The rows of seeds that had no part in choosing the rates."""
    for optimizer, rate in best_rates.items():
        yield f"fresh {optimizer}", BASE | dict(optimizer=optimizer, lr=rate)


def run(case: Case, seed: int) -> tuple[Run, list[float | None], float]:
    """(what is kept, the loss of every step, seconds of one core)."""
    from .trial import trial

    flags = {name: value for name, value in case.items() if name != "repeat"}
    found = trial(TrainConfig.of(**flags, seed=seed), case.get("repeat", 0))
    ends = {"seed": seed, "unseen": number(found.unseen), "size": number(found.size)}
    return ends, [number(loss) for loss in found.loss], found.seconds


def number(value: float) -> float | None:
    """Four digits, or None for what is no number."""
    return float(f"{value:.4g}") if math.isfinite(value) else None


def binned(losses: list[float | None]) -> list[float | None]:
    """The mean of each BIN steps; None where one of them is none."""
    parts = (losses[i : i + BIN] for i in range(0, len(losses), BIN))
    return [None if None in part else number(fmean(part)) for part in parts]


def write() -> None:
    """Run every case and write the file anew."""
    import torch

    rows: dict[str, Any] = {}
    seconds = _run_all(cases(), SEEDS, rows)
    kept_there.kept.cache_clear()
    _save(rows, seconds, torch.__version__)
    best = {optimizer: kept_there.best_rate(optimizer) for optimizer in RATES}
    seconds += _run_all(fresh_cases(best), FRESH, rows)
    _save(rows, seconds, torch.__version__)


def _run_all(
    some: Iterator[tuple[str, Case]], seeds: tuple[int, ...], rows: dict[str, Any]
) -> float:
    seconds = 0.0
    for row, case in some:
        found = []
        for seed in seeds:
            ends, losses, took = run(case, seed)
            found.append(ends | ({} if row.startswith("decay") else {"loss": binned(losses)}))
            seconds += took
        rows[row] = {"case": case, "runs": found}
        print(row, [one["unseen"] for one in found], flush=True)
    return seconds


def _save(rows: dict[str, Any], seconds: float, torch_version: str) -> None:
    about = {
        "torch": torch_version,
        "date": datetime.date.today().isoformat(),
        "minutes": round(seconds / 60, 1),
    }
    lines = ",\n".join(f"{json.dumps(row)}: {json.dumps(found)}" for row, found in rows.items())
    FILE.write_text(f'{{"about": {json.dumps(about)},\n"rows": {{\n{lines}\n}}}}\n', "utf-8")


if __name__ == "__main__":
    write()
