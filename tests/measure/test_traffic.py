"""Summing up the ledger: one entry per kind of call, rounded once."""

from __future__ import annotations

from lab_utils import ParallelConfig, launch
from lab_utils.layout.wire import wire_bytes
from lab_utils.measure.traffic import summarize
from lab_utils.parallel.ledger import Ledger
from lab_utils.report import Traffic


def test_calls_of_a_kind_are_one_entry_and_bytes_are_rounded_once():
    ledger = Ledger()
    for op, axis, purpose, size in [("all_reduce", "dp", "gradient", 4)] * 3 + [
        ("send", "pp", "activation", 7),
        ("all_reduce", "dp", "control", 4),
    ]:
        ledger.open(op, axis, purpose, size, wire_bytes(op, size, 3))
    assert summarize(ledger.calls, {"dp": 3, "pp": 3}) == (
        Traffic("all_reduce", "dp", "gradient", 3, 12, 16),  # 3 × 5.33, not 3 × 5
        Traffic("send", "pp", "activation", 1, 7, 7),
        Traffic("all_reduce", "dp", "control", 1, 4, 5),
    )
    assert summarize([], {}) == ()


def counted_from_outside() -> tuple[int, int, int]:
    import torch
    import torch.distributed as dist

    from lab_utils.measure.traffic import OutsideCounter
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(ParallelConfig(dp=2))
    with OutsideCounter(mesh):
        dist.all_reduce(torch.zeros(10), async_op=True).wait()
        dist.all_reduce(torch.zeros(5, dtype=torch.float64))
    dist.all_reduce(torch.zeros(1000))  # after it closed
    return (
        len(mesh.ledger.calls),
        sum(c.bytes for c in mesh.ledger.calls),
        sum(c.wire_bytes for c in mesh.ledger.calls),
    )


def test_a_library_is_counted_from_outside_while_the_counter_is_open():
    assert launch(counted_from_outside, 2, threads=1) == [(2, 80, 80)] * 2
