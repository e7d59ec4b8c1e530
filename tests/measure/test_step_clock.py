"""The clock of a step and the judge of a trace, on cases whose answers are known."""

from __future__ import annotations

import time

import pytest
import torch

from lab_utils.measure.overlap import overlap
from lab_utils.measure.time import StepClock
from lab_utils.parallel.ledger import Ledger


def timed(clock: StepClock, data: float, compute: float, wait: float, keep: bool = True) -> None:
    ledger = Ledger()
    clock.begin()
    time.sleep(data)
    clock.data_here()
    call = ledger.open("all_reduce", "dp", "gradient", 1, 1)
    time.sleep(compute)
    call.wait_began = time.perf_counter()
    time.sleep(wait)
    call.finished = call.wait_ended = time.perf_counter()
    clock.end(ledger, keep=keep)


def test_the_median_step_is_one_that_happened():
    clock = StepClock(torch.device("cpu"))
    timed(clock, 0, 0.3, 0, keep=False)
    for compute in (0.02, 0.06, 0.12):
        timed(clock, 0.01, compute, 0.03)
    middle = clock.summary()
    assert middle in clock.steps
    assert 0.1 <= middle["step"] < 0.15
    assert middle["data"] >= 0.01
    assert 0.03 <= middle["communication"] < 0.06
    assert middle["compute"] >= 0.06
    # it was under way all the time
    assert middle["hidden"] == pytest.approx(middle["compute"], abs=5e-3)
    assert middle["compute"] + middle["communication"] + middle["bubble"] + middle[
        "data"
    ] == pytest.approx(middle["step"], rel=1e-12)


def test_nothing_kept_is_nothing_known():
    assert set(StepClock(torch.device("cpu")).summary().values()) == {None}


GRADIENTS = [(float(i), "gradient", f"p{i}") for i in range(4)]  # the last one at 3.0


@pytest.mark.parametrize(
    ("messages", "ready", "real"),
    [
        (
            [(1.5, "issue", "0"), (3.1, "issue", "1"), (3.2, "wait", "0"), (3.3, "wait", "1")],
            2,
            True,
        ),
        # left early, and was waited for
        (
            [(1.5, "issue", "0"), (1.6, "wait", "0"), (3.1, "issue", "1"), (3.2, "wait", "1")],
            2,
            False,
        ),
        # left when all was over
        (
            [(3.1, "issue", "0"), (3.2, "issue", "1"), (3.3, "wait", "0"), (3.4, "wait", "1")],
            4,
            False,
        ),
    ],
)
def test_overlap_means_left_early_and_not_waited_for(messages, ready, real):
    judged = overlap(sorted(GRADIENTS + messages))
    assert (judged.gradients, judged.ready_at_first_send, judged.real) == (4, ready, real)


@pytest.mark.parametrize("trace", [[], GRADIENTS, [(0.0, "issue", "0")]])
def test_a_trace_that_says_nothing(trace):
    with pytest.raises(ValueError, match="more than one rank"):
        overlap(trace)
