"""The numbers of both panels: schedules played through by the estimator, in units or in seconds of
an H100."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...config import ConfigError, Schedule, TrainConfig
from ...estimate.hardware import cluster
from ...estimate.time.pipeline import Timeline, simulate
from ...estimate.time.stages import StageClock
from ...layout.schedule import make_schedule
from ...layout.schedule_check import in_flight
from .recorded import SCHEDULES, chunks

RANKS, MICRO_BATCHES = (2, 4, 8), (1, 2, 4, 8, 16)
MODELS = ("llama3-8b", "llama3-70b", "gpt2")
STAGES, IN_A_BATCH = 4, 8  # of the second panel: pipeline ranks and micro-batches
# of the second panel: where a boundary may stand, by model
CUTS: dict[str, tuple[tuple[int, ...], ...]] = {
    "llama3-8b": (tuple(range(6, 11)), tuple(range(14, 19)), tuple(range(22, 29))),
    "llama3-70b": (tuple(range(18, 23)), tuple(range(38, 43)), tuple(range(58, 64))),
    "gpt2": (tuple(range(2, 5)), tuple(range(5, 8)), tuple(range(8, 12))),
}


class Played(NamedTuple):
    """A schedule on the clock and what each rank holds at most, in micro-batches of a whole
    rank."""

    timeline: Timeline
    held: tuple[float, ...]


@lru_cache(maxsize=128)
def played(schedule: Schedule, ranks: int, micro_batches: int) -> Played | None:
    """In units: a rank's forward, backward and weight gradients of a micro-batch take 1 each; None
    for a schedule that there is not."""
    v = chunks(schedule)
    try:
        made = make_schedule(schedule, ranks, micro_batches, v)
    except ConfigError:
        return None
    held = tuple(n / v for n in in_flight(made, until="W"))
    return Played(simulate(made, 1 / v, 1 / v, 1 / v), held)


class Parts(NamedTuple):
    """Seconds of one micro-batch, (forward, whole backward), on an H100 (estimated)."""

    layers: int
    embed: tuple[float, float]
    block: tuple[float, float]
    head: tuple[float, float]

    @property
    def head_in_blocks(self) -> float:
        """How many blocks the head is worth."""
        return sum(self.head) / sum(self.block)


@lru_cache(maxsize=8)
def parts(model: str) -> Parts:
    """What a model is cut from. A stage is a sum of these, so three stages that differ give all."""
    layers = TrainConfig.of(model, global_batch=1).model.layers
    clock, seconds = StageClock(cluster("H100-SXM")), {}
    for pp in (1, layers):
        job = TrainConfig.of(model, pp=pp, global_batch=1, micro_batch=1, precision="bf16-pure")
        seconds[pp] = [(s.forward, s.backward + s.weight) for s in clock.stages(job)]
    first, block, last = (seconds[layers][i] for i in (0, 1, -1))
    embed, head = (
        tuple(end - one for end, one in zip(ends, block, strict=True)) for ends in (first, last)
    )
    return Parts(layers, embed, block, head)


@lru_cache(maxsize=1024)
def cut(model: str, *cuts: int) -> tuple[Timeline, tuple[float, ...]]:
    """1F1B with boundaries after these layers: its timeline in seconds, and each stage's seconds
    for a micro-batch."""
    part = parts(model)
    ends = (0, *cuts, part.layers)
    forward, backward = (
        [
            (b - a) * part.block[i]
            + (part.embed[i] if a == 0 else 0)
            + (part.head[i] if b == part.layers else 0)
            for a, b in zip(ends, ends[1:], strict=False)
        ]
        for i in (0, 1)
    )
    timeline = simulate(make_schedule("1f1b", STAGES, IN_A_BATCH), forward, backward)
    return timeline, tuple(f + b for f, b in zip(forward, backward, strict=True))


def even_seconds(model: str) -> float:
    """The step if work could be cut anywhere: every stage an equal part."""
    part = parts(model)
    forward, backward = (
        (part.layers * part.block[i] + part.embed[i] + part.head[i]) / STAGES for i in (0, 1)
    )
    return simulate(make_schedule("1f1b", STAGES, IN_A_BATCH), forward, backward).seconds


__all__ = ["CUTS", "MICRO_BATCHES", "MODELS", "RANKS", "SCHEDULES", "cut", "parts", "played"]
