"""Real runs that the memory-anatomy tool lays over its estimates, and how they are recorded anew:

    python -c "from lab_utils import train; from lab_utils.widgets import anatomy_measured; anatomy_measured.write(train)"

`train` is handed in because no tool imports torch. The file says on what and when it was measured.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

from ..config import TrainConfig
from ..report import Report
from . import anatomy_costs as costs

FILE = Path(__file__).with_name("measured") / "memory_anatomy.json"
STEPS = 3                                       # the second step is the one that is counted
TERMS = ("parameters", "gradients", "optimizer", "gathered", "buckets", "activations", "weight_copies", "temporary", "update")
COUNTED = TERMS[:-2]                            # temporary tensors are seen at the peak only, not at their own most
PLAIN = {"precision": "fp32", "optimizer": "adamw", "micro_batch": 1, "micro_batches": 1, "dp": 1, "tp": 1, "pp": 1, "zero": 0,
         "sequence_parallel": False, "recompute": "none"}  # fmt: skip
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"dp": 2}, {"dp": 2, "zero": 1}, {"dp": 2, "zero": 2}, {"dp": 2, "zero": 3}, {"tp": 2}, {"tp": 2, "sequence_parallel": True},
    {"pp": 2, "micro_batches": 8}, {"pp": 4, "micro_batches": 8}, {"dp": 2, "tp": 2, "zero": 3, "sequence_parallel": True},
)  # fmt: skip
Bars = list[list[int | None]]
Key = tuple[Any, ...]


def cases() -> Iterator[dict[str, Any]]:
    """Every state that is recorded: one process in all ways, then layouts of two and four."""
    precisions, policies = ("fp32", "bf16", "bf16-pure"), ("none", "selective", "full")
    for precision, recompute, micro_batch in product(precisions, policies, (1, 4)):
        yield PLAIN | {"model": "tiny", "precision": precision, "recompute": recompute, "micro_batch": micro_batch}
    yield PLAIN | {"model": "tiny", "optimizer": "sgd"}
    for layout in LAYOUTS:
        yield PLAIN | {"model": "tiny"} | layout
    for precision, recompute in (("fp32", "none"), ("bf16", "full")):
        yield PLAIN | {"model": "gpt2", "precision": precision, "recompute": recompute}


def measure(state: Mapping[str, Any], train: Callable[[TrainConfig], Report]) -> tuple[Bars, str]:
    """Run it for real; returns bytes by term for each stage that the tool shows, and the device."""
    report = train(costs.config_of(**state).replace(steps=STEPS))
    seen: dict[int, Any] = {}
    for rank in report.ranks:
        held = [rank.memory.get(term) or 0 for term in COUNTED] + [None, None]
        if seen.setdefault(rank.coords["pp"], held) != held:
            raise ValueError(f"{dict(state)}: the ranks of a stage differ, and one of them cannot stand for all.")
    pp = state["pp"]
    return [seen[stage] for stage in dict.fromkeys((0, pp // 2, pp - 1) if pp > 2 else range(pp))], report.device


def write(train: Callable[[TrainConfig], Report]) -> None:
    """Measure every case and write the file anew; some minutes and 4 GB on two cores."""
    results = [(state, *measure(state, train)) for state in cases()]
    conditions = {"device": results[0][2], "torch": version("torch"), "date": datetime.date.today().isoformat()}
    FILE.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps({"state": state, "bars": bars}) for state, bars, _ in results)
    FILE.write_text(f'{{"measured": {json.dumps(conditions)},\n"runs": [\n{lines}\n]}}\n', encoding="utf-8")


@cache
def _recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def about() -> str:
    """On what and when it was measured."""
    conditions = _recorded()["measured"]
    return f"torch {conditions['torch']}, {conditions['device'].split(',')[0]}, {conditions['date']}"


def records(controls: tuple[str, ...]) -> dict[Key, Bars]:
    """Measured bytes by the values of these controls: for each stage shown, by term; None where a term was not looked at."""
    return {tuple(run["state"][name] for name in controls): run["bars"] for run in _recorded()["runs"]}
