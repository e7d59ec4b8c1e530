"""Schedules that real ranks have carried out, with stages that wait instead of computing
(measure/schedule.py), for the tool to lay over the simulation. Written anew by

    python -c "from lab_utils.measure.schedule import measured_timeline as run
    from lab_utils.widgets.pipeline_schedules.recorded import RECORDING
    RECORDING.write(run)"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from ...config import Schedule
from ...estimate.time.pipeline import Timeline, simulate
from ...layout.schedule import PipelineSchedule, make_schedule
from ..frame.recording import Case, Recording

SCHEDULES: tuple[Schedule, ...] = ("gpipe", "1f1b", "interleaved", "zero-bubble")
RANKS, MICRO_BATCHES = (2, 4), (4, 8)
UNIT_SECONDS = 0.05  # forward, backward and weight gradients of one micro-batch on one rank
ATTEMPTS = 3  # whatever disturbs a run makes it longer: the shortest is kept


def chunks(schedule: Schedule) -> int:
    """Virtual stages a rank, here."""
    return 2 if schedule == "interleaved" else 1


def schedule_of(schedule: Schedule, ranks: int, micro_batches: int) -> PipelineSchedule:
    """The data that is simulated, drawn and carried out."""
    return make_schedule(schedule, ranks, micro_batches, chunks(schedule))


def simulated(schedule: Schedule, ranks: int, micro_batches: int) -> Timeline:
    """What the simulator makes of it."""
    unit = UNIT_SECONDS / chunks(schedule)
    return simulate(schedule_of(schedule, ranks, micro_batches), unit, unit, unit)


class ScheduleRecording(Recording):
    """A Recording whose runs are of schedules, by `measure.schedule.measured_timeline`."""

    def measure(self, case: Case, train: Callable[..., Timeline]) -> tuple[Any, str]:
        """Carry a case out for real; returns what would be kept, and the device."""
        unit, schedule = UNIT_SECONDS / chunks(case["schedule"]), schedule_of(**case)
        runs = (train(schedule, unit, unit, unit) for _ in range(ATTEMPTS))
        best = min(runs, key=lambda timeline: timeline.seconds)
        kept = {
            name: [[round(at, 4) for at in lane] for lane in getattr(best, name)]
            for name in ("starts", "ends")
        }
        return kept | {"busy": [round(s, 4) for s in best.busy_seconds]}, "cpu"


def _cases() -> Iterator[Case]:
    for ranks, micro_batches, schedule in product(RANKS, MICRO_BATCHES, SCHEDULES):
        yield {"schedule": schedule, "ranks": ranks, "micro_batches": micro_batches}


RECORDING = ScheduleRecording(
    Path(__file__).with_name("recorded.json"), _cases, lambda **_: None, lambda *_: None
)


@lru_cache(maxsize=32)
def recorded(schedule: Schedule, ranks: int, micro_batches: int) -> Timeline | None:
    """What real ranks took; None where they were not asked."""
    case = {"schedule": schedule, "ranks": ranks, "micro_batches": micro_batches}
    found = RECORDING.found(**case)
    if found is None:
        return None
    starts, ends = (tuple(map(tuple, found[name])) for name in ("starts", "ends"))
    return Timeline(schedule_of(**case), starts, ends, tuple(found["busy"]))
