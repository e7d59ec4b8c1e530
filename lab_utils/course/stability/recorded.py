"""Runs of lesson 11 that take minutes, kept in recorded.json with their configuration, versions and
date. Made anew, in about ten minutes on one core, by

    python -m lab_utils.course.stability.recorded

With seeds behind it, the remedies alone are run with these, in two minutes, and printed.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from ...config import TrainConfig

FILE = Path(__file__).with_name("recorded.json")
SEEDS = (0, 1, 2)
BASE = dict(preset="tiny", seq=32, global_batch=16, steps=150)
ILLNESSES = {"sgd": dict(optimizer="sgd", lr=1.0), "logits": dict(lr=0.03)}
REMEDIES: dict[str, dict[str, Any]] = {
    "none": {},
    "clip": dict(clip=1.0),
    "clip_value": dict(clip_value=0.01),
    "warmup": dict(warmup=50),
    "qk_norm": dict(qk_norm=True),
    "z_loss": dict(z_loss=True),
}
THRESHOLDS = (0.0, 10.0, 1.0, 0.1, 0.01)
CLIPPED = {"sgd": dict(optimizer="sgd", lr=0.3), "adamw": dict(lr=0.003)}
BATCHES, BATCH_RATES = (4, 16, 64), (0.001, 0.003, 0.01, 0.03)
RATES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
TRIAL_FLAGS = ("warmup", "clip_value", "qk_norm", "z_loss")
Case = dict[str, Any]


def cases(seeds: Iterable[int] = SEEDS) -> Iterator[tuple[str, Case]]:
    """Every case with the table that it belongs to, seeds in turn."""
    for seed in seeds:
        for illness, flags in ILLNESSES.items():
            for remedy, more in REMEDIES.items():
                yield f"cure {illness} {remedy}", BASE | flags | more | dict(seed=seed)
        for name, flags in CLIPPED.items():
            for clip in THRESHOLDS:
                yield f"clip {name} {clip}", BASE | flags | dict(clip=clip, seed=seed)
        for batch in BATCHES:
            for lr in BATCH_RATES:
                steps = BASE["steps"] * BASE["global_batch"] // batch
                more = dict(global_batch=batch, steps=steps, lr=lr, seed=seed)
                yield f"batch {batch} {lr}", BASE | more
        for init in ("gpt2", "mup"):
            for width in (32, 64, 128, 256):
                for lr in RATES:
                    more = dict(init=init, hidden=width, heads=width // 16, layers=2, lr=lr)
                    more |= dict(global_batch=8, steps=100, seed=seed)
                    yield f"width {init} {width} {lr}", BASE | more


def run(case: Case) -> dict[str, list[float | None]]:
    """Train as the case says; four instruments, a value for each step, None from where a number is
    none."""
    from .coordinates import mup_groups
    from .trial import trial

    config = TrainConfig.of(**{k: v for k, v in case.items() if k not in TRIAL_FLAGS})
    groups = mup_groups if config.init == "mup" else None
    more = {k: v for k, v in case.items() if k in TRIAL_FLAGS}
    found = trial(config, groups=groups, **more)
    return {name: [_kept(v) for v in series] for name, series in vars(found).items()}


def _kept(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def final(losses: list[float | None]) -> float | None:
    """Mean loss of the last fifth of a run; None where a loss was no number."""
    last = losses[-(len(losses) // 5) :]
    return None if None in losses else _kept(fmean(last))


@cache
def kept() -> dict[str, Any]:
    """The recording: `about` and, by table row, the runs of all seeds."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def finals(row: str) -> list[float | None]:
    """Final losses of a row, one for each seed."""
    return [one["final"] for one in kept()["runs"][row]]


def series(row: str, instrument: str) -> list[list[float | None]]:
    """What an instrument showed, for each seed; kept of the rows of cures and clips."""
    return [one[instrument] for one in kept()["runs"][row]]


def write() -> None:
    """Run every case and write the file anew."""
    import torch

    torch.set_num_threads(1)
    began, runs = time.perf_counter(), {}
    for row, case in cases():
        found = run(case)
        one = {"case": case, "final": final(found["loss"])}
        if row.startswith(("cure", "clip")):
            one |= found
        runs.setdefault(row, []).append(one)
    about = {
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    rows = (f"{json.dumps(row)}: {json.dumps(found)}" for row, found in runs.items())
    text = f'{{"about": {json.dumps(about)},\n"runs": {{\n' + ",\n".join(rows) + "\n}}\n"
    FILE.write_text(text, encoding="utf-8")


def again(seeds: Iterable[int]) -> None:
    """The remedies with other seeds: final loss and largest attention logit of each."""
    import torch

    torch.set_num_threads(1)
    for row, case in cases(seeds):
        if row.startswith("cure"):
            found = run(case)
            largest = max(v for v in found["logit"] if v is not None)
            print(row, case["seed"], final(found["loss"]), largest, flush=True)


if __name__ == "__main__":
    again(map(int, sys.argv[1:])) if sys.argv[1:] else write()
