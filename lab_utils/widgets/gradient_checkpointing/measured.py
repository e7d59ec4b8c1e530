"""Real runs that the gradient-checkpointing tool lays over its estimates."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ...report import Report
from ..frame.recording import Case, Recording
from .costs import PRESETS, config


class Measured(NamedTuple):
    """The most bytes saved for backward at once, and FLOPs of one step with what was done twice."""

    activations: int
    flops: int


def _cases() -> Iterator[Case]:
    for policy in PRESETS.values():
        yield {"policy": policy}


def _read(case: Case, report: Report) -> dict[str, int]:
    found = Measured(report.ranks[0].memory["activations"], report.flops["hardware"])
    return found._asdict()


RECORDING = Recording(Path(__file__).with_name("measured.json"), _cases, config, _read)


@cache
def measured(policy: str) -> Measured | None:
    """What a real run showed; None where nothing was measured."""
    run = RECORDING.found(policy=policy)
    return run and Measured(**run)
