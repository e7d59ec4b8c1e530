"""Runs of lesson 13 that take minutes, kept in recorded.json with their configuration, versions and
date. Made anew, in a few minutes on one core, by

    python -m lab_utils.course.schedules.recorded

The tool's runs have a recording of their own (tool_recorded.py).
"""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from ...config import TrainConfig
from ...config.lr_schedule import learning_rate, wsd_cooldown
from ...widgets.schedules.grid import SHAPE

FILE = Path(__file__).with_name("recorded.json")
SEEDS = (0, 1, 2)
BASE = dict(preset="tiny", **SHAPE)
HORIZONS = (240, 480, 960)
HORIZON_RATES = (0.001, 0.002, 0.004, 0.008)
FAULTS = ("right", "micro", "micro_cosine", "one_rank")
FAULTY = dict(lr=0.003, steps=480, warmup=20)
SEQUENCES, BATCHES = 1280, (2, 8, 32)
BATCH_RATES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
NOISE_AT, NOISE_FEW, NOISE_TIMES = (0, 30, 120, 480), 2, 128
Case = dict[str, Any]


def cases(seeds: Iterable[int] = SEEDS) -> Iterator[tuple[str, Case]]:
    """Every case with the row that it belongs to, seeds in turn. A case is flags, and `measure`,
    which says what is kept."""
    for seed in seeds:
        base = BASE | dict(seed=seed)
        for lr in HORIZON_RATES:
            more = base | dict(lr=lr, warmup=40, lr_end=0.0)
            for steps in HORIZONS:
                long = dict(lr_schedule="cosine", steps=steps)
                yield f"cosine {steps} {lr}", more | long | dict(measure="looks")
            long = dict(lr_schedule="wsd", steps=HORIZONS[-1])
            yield f"wsd {lr}", more | long | dict(measure="branches")
        for fault in FAULTS:
            yield f"fault {fault}", base | FAULTY | dict(measure="fault", fault=fault)
        for batch in BATCHES:
            for lr in BATCH_RATES:
                steps = SEQUENCES // batch
                more = dict(global_batch=batch, steps=steps, warmup=steps // 10, lr=lr, lr_end=0.0)
                row = base | more | dict(lr_schedule="wsd", measure="final")
                yield f"batch {batch} {lr}", row
        more = dict(lr=0.003, warmup=20, steps=NOISE_AT[-1])
        yield "noise", base | more | dict(measure="noise")


def measure(case: Case) -> list[Any]:
    """Train as the case says, inside `launch(…, 1, …)`, and measure what it asks for."""
    from .faults import faulty
    from .runs import Run

    flags = {k: v for k, v in case.items() if k not in ("measure", "fault")}
    config = TrainConfig.of(**flags)
    run, rate = Run(config), partial(learning_rate, config)
    match case["measure"]:
        case "looks":  # held-out loss at every horizon up to the run's own
            return [_at(run, steps, rate) for steps in HORIZONS if steps <= config.steps]
        case "branches":
            return _branches(run)
        case "fault":
            shares = faulty(config.steps, config.warmup)[case["fault"]]
            return [_at(run, config.steps, lambda update: config.lr * shares[update])]
        case "noise":
            return _noise(run, rate)
    return [_at(run, config.steps, rate)]


def _at(run: Any, steps: int, rate: Any) -> float:
    run.train(steps, rate)
    return round(run.held_out(), 4)


def _branches(run: Any) -> list[float]:
    """One trunk at the full rate; from it, for each horizon, a cool-down to the horizon's end."""
    found = []
    for steps in HORIZONS:
        own = run.config.replace(steps=steps)
        run.train(steps - wsd_cooldown(steps), partial(learning_rate, run.config))
        trunk = run.checkpoint()
        found.append(_at(run, steps, partial(learning_rate, own)))
        run.go_back(trunk)
    return found


def updates_of_branches() -> int:
    """How many updates `_branches` computes."""
    trunk = HORIZONS[-1] - wsd_cooldown(HORIZONS[-1])
    return trunk + sum(map(wsd_cooldown, HORIZONS))


def _noise(run: Any, rate: Any) -> list[list[float]]:
    """|G|² and tr Σ at several moments of a run."""
    from .noise import noise, norms_of

    found = []
    for at in NOISE_AT:
        run.train(at, rate)
        one = noise([norms_of(run, NOISE_FEW, NOISE_TIMES)])
        found.append([float(f"{v:.4g}") for v in one])
    return found


@cache
def kept() -> dict[str, Any]:
    """The recording: `about` and, by row, the runs of all seeds."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def found(row: str) -> list[list[Any]]:
    """What was measured, for each seed."""
    return [one["found"] for one in kept()["runs"][row]]


def finals(row: str) -> list[float]:
    """The last value of a row, for each seed: the held-out loss at the end."""
    return [values[-1] for values in found(row)]


def write() -> None:
    """Run every case and write the file anew."""
    import torch

    from ...launch import launch

    began, runs = time.perf_counter(), {}
    for row, case in cases():
        (value,) = launch(measure, 1, case, threads=1)
        runs.setdefault(row, []).append({"case": case, "found": value})
        print(row, case["seed"], value, flush=True)
    about = {
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "minutes": round((time.perf_counter() - began) / 60, 1),
    }
    rows = (f"{json.dumps(row)}: {json.dumps(values)}" for row, values in runs.items())
    text = f'{{"about": {json.dumps(about)},\n"runs": {{\n' + ",\n".join(rows) + "\n}}\n"
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
