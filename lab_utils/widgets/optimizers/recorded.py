"""Real runs of the engine with every optimizer: what they ended with, and their curves. The tool
draws them, lesson 12 prints them; course/optimizers/recorded.py makes them anew."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

FILE = Path(__file__).with_name("recorded.json")
SEEDS, FRESH = (0, 1, 2), (3, 4, 5)
BIN = 10  # steps whose losses are kept as one mean
BASE = dict(
    preset="tiny",
    layers=2,
    seq=32,
    positions="rope",
    norm="rmsnorm",
    global_batch=16,
    steps=200,
    warmup=20,
    lr_schedule="cosine",
)
# five rates each, a factor of 2.5 apart; where they lie was scouted with seed 7. Adam without decay
# is AdamW
RATES = {
    "sgd": (0.05, 0.12, 0.3, 0.75, 1.9),
    "adamw": (0.0005, 0.0012, 0.003, 0.0075, 0.019),
    "adam8bit": (0.0005, 0.0012, 0.003, 0.0075, 0.019),
    "lion": (0.00016, 0.0004, 0.001, 0.0025, 0.006),
    "adafactor": (0.016, 0.04, 0.1, 0.25, 0.6),
    "muon": (0.004, 0.01, 0.025, 0.06, 0.15),
}
NAMES = {
    "sgd": "SGD",
    "adamw": "AdamW",
    "adam8bit": "8-bit Adam",
    "lion": "Lion",
    "adafactor": "Adafactor",
    "muon": "Muon",
}
Run = dict[str, Any]  # "seed", "unseen", "size", and of a race "loss", a mean for each BIN steps


@cache
def kept() -> dict[str, Any]:
    """The recording: `about`, and by row its `case` and the `runs` of all seeds."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def about() -> str:
    """With what and when it was recorded."""
    return f"torch {kept()['about']['torch']}, {kept()['about']['date']}"


def runs(row: str) -> list[Run]:
    """The runs of a row, one for each seed."""
    return kept()["rows"][row]["runs"]


def unseen(row: str) -> list[float | None]:
    """Loss on held-out text of each seed; None where it is no number."""
    return [run["unseen"] for run in runs(row)]


def race(optimizer: str, rate: float) -> str:
    """The row of an optimizer at a rate."""
    return f"race {optimizer} {rate}"


def best_rate(optimizer: str) -> float:
    """The rate whose held-out loss is lowest in the mean of the seeds; one that fails in any of
    them is none."""
    means = {
        rate: fmean(unseen(race(optimizer, rate)))
        for rate in RATES[optimizer]
        if None not in unseen(race(optimizer, rate))
    }
    return min(means, key=means.get)


def best(optimizer: str) -> list[float]:
    """Held-out losses of an optimizer at its best rate, by seed."""
    return unseen(race(optimizer, best_rate(optimizer)))
