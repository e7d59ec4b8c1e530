"""Bytes of every optimizer: what a rank keeps and sends under ZeRO-1, by the estimator."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ...config import TrainConfig
from ...estimate import estimate
from ...estimate.update import states_of_whole
from ...layout.parameters import parameter_count, parameter_shapes
from .recorded import BASE, RATES

RANKS, LARGE_MODEL = 8, "llama3-8b"


class Bytes(NamedTuple):
    """Of the fullest of RANKS ranks, training the recorded model: states that it keeps, and what it
    sends in a step. `each`: bytes of states per parameter of LARGE_MODEL, all ranks together."""

    states: int
    sent: int
    each: float


@cache
def bytes_of(optimizer: str) -> Bytes:
    """An optimizer's bytes."""
    report = estimate(TrainConfig.of(**BASE, optimizer=optimizer, dp=RANKS, zero=1))
    large = TrainConfig.of(LARGE_MODEL).model
    return Bytes(
        max(rank.memory["optimizer"] for rank in report.ranks),
        max(sum(item.wire_bytes for item in rank.traffic) for rank in report.ranks),
        states_of_whole(optimizer, parameter_shapes(large)) / parameter_count(large),
    )


def most_sent() -> int:
    """The most that any optimizer sends in a step."""
    return max(bytes_of(optimizer).sent for optimizer in RATES)
