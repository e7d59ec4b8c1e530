"""Real runs of `tiny` that the ZeRO tool lays over its estimates, and how they are recorded anew:

    python -c "from lab_utils import train; from lab_utils.widgets import zero_measured; zero_measured.write(train)"

`train` is handed in because no tool imports torch. The file says on what and when it was measured.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from ..config import TrainConfig
from ..report import Report, Traffic
from .zero_costs import BETWEEN_STEPS, MICRO_BATCHES, OPTIMIZERS, PRECISIONS, WHILE_RUNNING, Setting, config
from .zero_walk import STAGES

MODEL, RANKS, STEPS = "tiny", (2, 4), 3         # the second step is the one that is counted
FILE = Path(__file__).with_name("measured") / "zero_stages.json"
TERMS = (*BETWEEN_STEPS, *WHILE_RUNNING, "offloaded")
Run = dict[str, Any]


def cases() -> Iterator[tuple[Setting, str]]:
    """Every run that is recorded."""
    for ranks, precision, optimizer, micro_batches, stage in product(RANKS, PRECISIONS, OPTIMIZERS, MICRO_BATCHES, STAGES):
        yield Setting(MODEL, ranks, precision, optimizer, micro_batches), stage


def measure(setting: Setting, stage: str, train: Callable[[TrainConfig], Report]) -> tuple[Run, str]:
    """Run it for real; returns what is recorded (bytes of rank 0: every rank's are the same) and the device."""
    report = train(config(setting, stage).replace(steps=STEPS))
    seen = [({term: rank.memory.get(term) or 0 for term in TERMS}, [asdict(entry) for entry in rank.traffic]) for rank in report.ranks]
    if any(rank != seen[0] for rank in seen):
        raise ValueError(f"{setting}, stage {stage}: the ranks differ, and one of them cannot stand for all: {seen}.")
    return {**setting._asdict(), "stage": stage, "memory": seen[0][0], "traffic": seen[0][1]}, report.device


def write(train: Callable[[TrainConfig], Report]) -> None:
    """Measure every case and write the file anew; a minute or two on two cores."""
    results = [measure(setting, stage, train) for setting, stage in cases()]
    about = {"device": results[0][1], "torch": version("torch"), "date": datetime.date.today().isoformat()}
    FILE.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(run) for run, _ in results)
    FILE.write_text(f'{{"measured": {json.dumps(about)},\n"runs": [\n{lines}\n]}}\n', encoding="utf-8")


@cache
def _recorded() -> tuple[dict[str, str], dict[tuple[Setting, str], Run]]:
    raw = json.loads(FILE.read_text(encoding="utf-8"))
    runs = {(Setting(**{name: run[name] for name in Setting._fields}), run["stage"]): run for run in raw["runs"]}
    return raw["measured"], runs


def conditions() -> dict[str, str]:
    """On what and when: "device", "torch", "date"."""
    return _recorded()[0]


def measured_memory(setting: Setting, stage: str) -> dict[str, int] | None:
    """Bytes of one rank by term; None where nothing was measured."""
    run = _recorded()[1].get((setting, stage))
    return run and run["memory"]


def measured_traffic(setting: Setting, stage: str) -> tuple[Traffic, ...] | None:
    """What one rank really sent in one step; None where nothing was measured."""
    run = _recorded()[1].get((setting, stage))
    return run and tuple(Traffic(**entry) for entry in run["traffic"])
