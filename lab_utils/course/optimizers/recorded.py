"""Records what lesson 12 and its tool show of training, in about eight minutes of one core:

    python -m lab_utils.course.optimizers.recorded

Every row is saved when it is done; with `resume` behind it, the rows that stand in the file are not
run again. Three parts. The race: every optimizer of the engine with five learning rates, three
seeds each; then AdamW and whoever ends below it, at the best of their rates, with three seeds that
had no part in choosing it. Weight decay, decoupled and as L2, on text that is met once; and
decoupled, on a few batches that come round ten times.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Iterator
from statistics import fmean
from typing import Any

from ...config import TrainConfig
from ...widgets.optimizers import recorded as kept_there
from ...widgets.optimizers.recorded import BASE, BIN, FILE, FRESH, RATES, SEEDS, Run, race

DECAYS = (0.1, 1.0)
DECAY_RATE = 0.003  # at which AdamW without decay is in the race
ROUND = 20  # batches that come round again, where text is repeated
Case = dict[str, Any]  # flags of TrainConfig but for the seed; `repeat` is trial's


def cases() -> Iterator[tuple[str, Case]]:
    """Every row that does not depend on another, and what it runs."""
    for optimizer, rates in RATES.items():
        for rate in rates:
            yield race(optimizer, rate), BASE | dict(optimizer=optimizer, lr=rate)
    for decay in DECAYS:
        for optimizer in ("adamw", "adam"):
            more = dict(optimizer=optimizer, lr=DECAY_RATE, weight_decay=decay)
            yield f"decay {optimizer} {decay}", BASE | more
    for decay in (0.0, DECAYS[-1]):
        more = dict(optimizer="adamw", lr=DECAY_RATE, weight_decay=decay, repeat=ROUND)
        yield f"decay repeated {decay}", BASE | more


def fresh_cases() -> Iterator[tuple[str, Case]]:
    """The rows of seeds that had no part in choosing the rates; the race must be recorded."""
    means = {optimizer: fmean(kept_there.best(optimizer)) for optimizer in RATES}
    for optimizer, mean in means.items():
        if mean <= means["adamw"]:
            rate = kept_there.best_rate(optimizer)
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


def write(resume: bool = False) -> None:
    """Run every case and write the file anew, or with `resume` what it lacks."""
    rows: dict[str, Any] = dict(kept_there.kept()["rows"]) if resume else {}
    for some, seeds in ((cases, SEEDS), (fresh_cases, FRESH)):
        for row, case in some():
            if rows.get(row, {}).get("case") != case:
                rows[row] = _row(row, case, seeds)
                _save(rows)


def _row(row: str, case: Case, seeds: tuple[int, ...]) -> dict[str, Any]:
    found, seconds = [], 0.0
    for seed in seeds:
        ends, losses, took = run(case, seed)
        found.append(ends | ({} if row.startswith("decay") else {"loss": binned(losses)}))
        seconds += took
    print(row, [one["unseen"] for one in found], flush=True)
    return {"case": case, "seconds": round(seconds, 1), "runs": found}


def _save(rows: dict[str, Any]) -> None:
    import torch

    about = {
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "minutes": round(sum(one["seconds"] for one in rows.values()) / 60, 1),
    }
    lines = ",\n".join(f"{json.dumps(row)}: {json.dumps(found)}" for row, found in rows.items())
    FILE.write_text(f'{{"about": {json.dumps(about)},\n"rows": {{\n{lines}\n}}}}\n', "utf-8")
    kept_there.kept.cache_clear()


if __name__ == "__main__":
    write(resume="resume" in sys.argv[1:])
