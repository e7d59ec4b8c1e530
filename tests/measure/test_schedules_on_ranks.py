"""Formula, simulator and clock: four schedules on 2 and 4 real ranks, with 4 and 8 micro-batches.
Stages wait instead of computing (measure/schedule.py), so that two cores can show it."""

from __future__ import annotations

from itertools import product

import pytest
from pairs import to_run
from quiet import on_time

from lab_utils.estimate.time.bubbles import bubble_over_ideal
from lab_utils.estimate.time.pipeline import simulate
from lab_utils.launch import LaunchError, launch
from lab_utils.layout.schedule import Action, make_schedule
from lab_utils.layout.schedule_check import in_flight
from lab_utils.measure.schedule import measured_timeline, run_waiting
from lab_utils.widgets.pipeline_schedules.recorded import UNIT_SECONDS, chunks

CASES = [
    {"name": name, "ranks": ranks, "micro_batches": m}
    for name, ranks, m in product(("gpipe", "1f1b", "interleaved", "zero-bubble"), (2, 4), (4, 8))
]
ATTEMPTS = 3  # what disturbs a run makes it longer


@pytest.mark.parametrize(
    ("name", "ranks", "micro_batches"),
    [tuple(case.values()) for case in to_run(CASES, lambda case: case)],
)
def test_the_measured_bubble_is_the_simulated_one_within_a_tenth(name, ranks, micro_batches):
    v = chunks(name)
    unit, made = UNIT_SECONDS / v, make_schedule(name, ranks, micro_batches, v)
    told = simulate(made, unit, unit, unit)
    formula = bubble_over_ideal(name, ranks, micro_batches, unit, unit, unit, v)
    assert told.bubble_over_ideal == pytest.approx(formula)
    for _ in range(ATTEMPTS):
        ran = measured_timeline(made, unit, unit, unit)
        off = ran.bubble_over_ideal / told.bubble_over_ideal - 1
        if abs(off) < 0.1:
            break
    print(f"{formula:.3f} {told.bubble_over_ideal:.3f} {ran.bubble_over_ideal:.3f} {off:+.1%}")
    on_time(abs(off) < 0.1, f"{off:+.1%} off the simulator")


def test_ranks_do_what_their_schedule_says_and_in_its_order():
    made = make_schedule("zero-bubble", 3, 4)
    ran = measured_timeline(made, 0.002, [0.002, 0.004, 0.002], 0.002)
    assert tuple(tuple(s.action for s in ran.spans if s.rank == r) for r in range(3)) == made
    for starts, ends in zip(ran.starts, ran.ends, strict=True):
        assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert (
        min(ran.ends[1][i] - ran.starts[1][i] for i, a in enumerate(made[1]) if a.kind == "B")
        >= 0.004
    )


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
def test_what_is_alive_on_the_ranks_is_what_the_schedule_promises(name):
    made = make_schedule(name, 4, 8, chunks(name))
    lanes = launch(run_waiting, 4, made, 0.001, 0.001, 0.001, threads=1)
    assert [lane.held for lane in lanes] == in_flight(made, until="W")


def test_a_circle_is_named_and_never_hangs():
    circle = tuple(
        tuple(Action(word[0], int(word[1]), rank) for word in line.split())
        for rank, line in enumerate(("F0 B0 F1 B1", "F0 F1 B0 B1"))
    )
    with pytest.raises(LaunchError, match="ranks 0 and 1 wait for each other") as caught:
        measured_timeline(circle, 0.001, 0.001, timeout=1)
    assert caught.value.cause == "hung"
