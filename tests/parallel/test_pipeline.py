"""The pipeline's executor: what it keeps is what the schedule promises, measured on the tensors
themselves."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig, train
from lab_utils.layout.schedule import make_schedule
from lab_utils.layout.schedule_check import in_flight

PP = 4
BASE = TrainConfig.of(
    layers=8, hidden=32, heads=4, seq=16, steps=2, pp=PP, micro_batch=2, global_batch=8
)


def saved(schedule: str, micro_batches: int, **flags: object) -> list[int]:
    """Bytes of activations that each rank kept at most; a micro-batch is two sequences, however
    many there are."""
    report = train(
        BASE.replace(schedule=schedule, global_batch=2 * micro_batches, **flags), threads=1
    )
    return [rank.memory["activations"] for rank in report.ranks]


def test_gpipe_keeps_every_micro_batch_and_1f1b_as_many_as_stages_are_left():
    gpipe, one_f_one_b = (
        {m: saved(schedule, m) for m in (4, 8, 12)} for schedule in ("gpipe", "1f1b")
    )
    for rank in range(PP):
        a_micro_batch = (gpipe[8][rank] - gpipe[4][rank]) / 4
        # grows with the micro-batches
        assert gpipe[12][rank] - gpipe[8][rank] == 4 * a_micro_batch > 0
        # does not
        assert one_f_one_b[4][rank] == one_f_one_b[8][rank] == one_f_one_b[12][rank]
        assert one_f_one_b[8][rank] == gpipe[8][rank] - (8 - (PP - rank)) * a_micro_batch
    print({rank: (gpipe[8][rank], one_f_one_b[8][rank]) for rank in range(PP)})


@pytest.mark.parametrize(
    ("schedule", "virtual_stages"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)]
)
def test_the_schedule_knows_how_many_are_in_flight(schedule, virtual_stages):
    """The middle ranks hold equal stages: their bytes stand in the ratio of what the schedule says
    is in flight."""
    m = 8
    kept = saved(schedule, m, virtual_stages=virtual_stages)
    most = in_flight(make_schedule(schedule, PP, m, virtual_stages))
    assert kept[1] * most[2] == kept[2] * most[1]


def test_zero_bubble_keeps_no_more_micro_batches_than_1f1b_on_its_first_stage():
    m = 8
    for rank, (kept, most) in enumerate(
        zip(saved("zero-bubble", m), saved("zero-bubble", 4), strict=True)
    ):
        assert kept == most, rank  # bounded by the stages, whatever m is
    assert (
        max(in_flight(make_schedule("zero-bubble", PP, m), until="W"))
        <= in_flight(make_schedule("1f1b", PP, m))[0]
    )
