"""Real runs of `tiny` that the ZeRO tool lays over its estimates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from ...config import TrainConfig
from ...report import Report, Traffic
from ..frame.recording import Case, Recording
from .costs import (
    BETWEEN_STEPS,
    MICRO_BATCHES,
    OPTIMIZERS,
    PRECISIONS,
    WHILE_RUNNING,
    Setting,
    config,
)
from .walk import STAGES

RANKS = (2, 4)
TERMS = (*BETWEEN_STEPS, *WHILE_RUNNING, "offloaded")


def _case(setting: Setting, stage: str) -> dict[str, Any]:
    return setting._asdict() | {"stage": stage}


def _cases() -> Iterator[Case]:
    for ranks, precision, optimizer, micro_batches, stage in product(
        RANKS, PRECISIONS, OPTIMIZERS, MICRO_BATCHES, STAGES
    ):
        yield _case(Setting("tiny", ranks, precision, optimizer, micro_batches), stage)


def _config(stage: str, **setting: Any) -> TrainConfig:
    return config(Setting(**setting), stage)


def _read(case: Case, report: Report) -> dict[str, Any]:
    """Bytes and traffic of rank 0: every rank's are the same."""
    seen = [
        {
            "memory": {term: rank.memory.get(term) or 0 for term in TERMS},
            "traffic": [asdict(entry) for entry in rank.traffic],
        }
        for rank in report.ranks
    ]
    if any(rank != seen[0] for rank in seen):
        raise ValueError(f"{case}: the ranks differ, and one cannot stand for all: {seen}.")
    return seen[0]


RECORDING = Recording(Path(__file__).with_name("measured.json"), _cases, _config, _read)


def measured_memory(setting: Setting, stage: str) -> dict[str, int] | None:
    """Bytes of one rank by term; None where nothing was measured."""
    run = RECORDING.found(**_case(setting, stage))
    return run and run["memory"]


def measured_traffic(setting: Setting, stage: str) -> tuple[Traffic, ...] | None:
    """What one rank really sent in one step; None where nothing was measured."""
    run = RECORDING.found(**_case(setting, stage))
    return run and tuple(Traffic(**entry) for entry in run["traffic"])
