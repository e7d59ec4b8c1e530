"""The ledger's sums over made-up calls whose answers are known."""

from __future__ import annotations

import time

from lab_utils.parallel.ledger import Call, Ledger


def call(issued, finished, wait_began, wait_ended, label="") -> Call:
    return Call(
        "all_reduce", "dp", "gradient", 1, 1, label, issued, finished, wait_began, wait_ended
    )


def test_hidden_is_what_ran_before_the_wait_and_overlapping_calls_count_once():
    ledger = Ledger(
        calls=[call(0, 4, 6, 6), call(2, 5, 6, 7), call(8, 10, 9, 10), call(20, None, None, None)]
    )
    assert ledger.hidden_seconds() == (5 - 0) + (9 - 8)
    assert ledger.exposed_seconds() == 0 + 1 + 1


def test_what_was_waited_for_at_once_hides_nothing():
    assert Ledger(calls=[call(0, 3, 0, 3), call(3, 5, 3, 5)]).hidden_seconds() == 0


def test_trace_is_in_time_order_and_clear_forgets():
    ledger = Ledger()
    ledger.mark("gradient", "a")
    opened = ledger.open("all_reduce", "dp", "gradient", 8, 8, "bucket 0")
    ledger.mark("gradient", "b")
    opened.wait_began = opened.wait_ended = time.perf_counter()
    assert [event[1:] for event in ledger.trace()] == [
        ("gradient", "a"),
        ("issue", "bucket 0"),
        ("gradient", "b"),
        ("wait", "bucket 0"),
        ("done", "bucket 0"),
    ]
    ledger.clear()
    assert ledger.trace() == []
