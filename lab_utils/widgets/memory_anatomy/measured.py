"""Real runs that the memory-anatomy tool lays over its estimates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from ...report import Report
from ..frame.recording import Case, Recording
from . import costs

TERMS = (
    "parameters",
    "gradients",
    "optimizer",
    "gathered",
    "buckets",
    "activations",
    "weight_copies",
    "temporary",
    "update",
)
# temporary tensors are seen at the peak only, not at their own most
COUNTED = TERMS[:-2]
PLAIN = {
    "precision": "fp32",
    "optimizer": "adamw",
    "micro_batch": 1,
    "micro_batches": 1,
    "dp": 1,
    "tp": 1,
    "pp": 1,
    "zero": 0,
    "sequence_parallel": False,
    "recompute": "none",
}
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"dp": 2},
    {"dp": 2, "zero": 1},
    {"dp": 2, "zero": 2},
    {"dp": 2, "zero": 3},
    {"tp": 2},
    {"tp": 2, "sequence_parallel": True},
    {"pp": 2, "micro_batches": 8},
    {"pp": 4, "micro_batches": 8},
    {"dp": 2, "tp": 2, "zero": 3, "sequence_parallel": True},
)
Bars = list[list[int | None]]
Key = tuple[Any, ...]


def _cases() -> Iterator[Case]:
    """One process in all ways, then layouts of two and four."""
    precisions, policies = ("fp32", "bf16", "bf16-pure"), ("none", "selective", "full")
    for precision, recompute, micro_batch in product(precisions, policies, (1, 4)):
        yield PLAIN | {
            "model": "tiny",
            "precision": precision,
            "recompute": recompute,
            "micro_batch": micro_batch,
        }
    yield PLAIN | {"model": "tiny", "optimizer": "sgd"}
    for layout in LAYOUTS:
        yield PLAIN | {"model": "tiny"} | layout
    for precision, recompute in (("fp32", "none"), ("bf16", "full")):
        yield PLAIN | {"model": "gpt2", "precision": precision, "recompute": recompute}


def _read(case: Case, report: Report) -> Bars:
    """Bytes by term for each stage that the tool shows."""
    seen: dict[int, Any] = {}
    for rank in report.ranks:
        held = [rank.memory.get(term) or 0 for term in COUNTED] + [None, None]
        if seen.setdefault(rank.coords["pp"], held) != held:
            raise ValueError(f"{case}: the ranks of a stage differ, and one cannot stand for all.")
    pp = case["pp"]
    shown = (0, pp // 2, pp - 1) if pp > 2 else range(pp)
    return [seen[stage] for stage in dict.fromkeys(shown)]


RECORDING = Recording(Path(__file__).with_name("measured.json"), _cases, costs.config_of, _read)


def records(controls: tuple[str, ...], where: Mapping[str, Any]) -> dict[Key, Bars]:
    """Measured bytes by the values of these controls: for each stage shown, by term; None where a
    term was not looked at. `where`: the values of controls that the cases do not name."""
    return {tuple((case | where)[name] for name in controls): bars for case, bars in RECORDING.runs}
