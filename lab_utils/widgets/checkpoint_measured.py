"""Real runs that the gradient-checkpointing tool lays over its estimates, and how they are recorded anew:

    python -c "from lab_utils import train; from lab_utils.widgets import checkpoint_measured; checkpoint_measured.write(train)"

`train` is handed in because no tool imports torch. The file says on what and when it was measured.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from ..config import TrainConfig
from ..report import Report
from .checkpoint_costs import PRESETS, config

FILE = Path(__file__).with_name("measured") / "gradient_checkpointing.json"
STEPS = 3       # the second step is the one that is counted


class Measured(NamedTuple):
    """The most bytes saved for backward at once, and FLOPs of one step with what was done twice."""

    activations: int
    flops: int


def measure(policy: str, train: Callable[[TrainConfig], Report]) -> tuple[Measured, str]:
    """Run it for real; returns what is recorded and the device."""
    report = train(config(policy).replace(steps=STEPS))
    return Measured(report.ranks[0].memory["activations"], report.flops["hardware"]), report.device


def write(train: Callable[[TrainConfig], Report]) -> None:
    """Measure every preset and write the file anew; half a minute on two cores."""
    results = {policy: measure(policy, train) for policy in PRESETS.values()}
    device = next(iter(results.values()))[1]
    about = {"device": device, "torch": version("torch"), "date": datetime.date.today().isoformat()}
    FILE.parent.mkdir(exist_ok=True)
    runs = {policy: run._asdict() for policy, (run, _) in results.items()}
    FILE.write_text(json.dumps({"measured": about, "runs": runs}, indent=1) + "\n", encoding="utf-8")


@cache
def _recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def about() -> str:
    """On what and when it was measured."""
    conditions = _recorded()["measured"]
    return f"torch {conditions['torch']}, {conditions['device'].split(',')[0]}, {conditions['date']}"


def measured(policy: str) -> Measured | None:
    """What a real run showed; None where nothing was measured."""
    run = _recorded()["runs"].get(policy)
    return run and Measured(**run)
