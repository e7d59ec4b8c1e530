"""Fitted on one published table, tested on others, beside the trivial model that predicts one
TFLOP/s for all rows."""

from __future__ import annotations

import pytest
from published import (
    TABLE_1,
    TABLE_2_ZERO_530B,
    TABLES,
    Errors,
    Row,
    all_errors,
    counted_flops,
    mean,
    predicted,
)

from lab_utils.estimate.hardware.fitted import SC21
from lab_utils.layout.parameters import parameter_count


def errors(fitted_on: str, table: str) -> Errors:
    return next(
        e
        for _, group in all_errors()
        for e in group
        if e.fitted_on == fitted_on and e.table == table
    )


@pytest.mark.parametrize(
    "row",
    [row for rows in TABLES.values() for row in rows],
    ids=lambda row: f"{row.table} {row.size} {row.config.parallel.world_size}",
)
def test_every_row_is_the_model_that_it_says(row: Row):
    """Our GPT of that shape has the printed number of parameters, and the row's own FLOP formula is
    the ledger's."""
    unit = 1e12 if row.size.endswith("T") else 1e9
    assert parameter_count(row.config.model) == pytest.approx(float(row.size[:-1]) * unit, rel=0.05)
    m, tokens = row.config.model, row.config.global_batch * row.config.model.seq
    per_layer = 24 * m.hidden**2 * (1 + m.seq / (6 * m.hidden))
    # SC21 counts the second forward pass, of the blocks only
    passes, head = (3, 3) if row.table == "H100" else (4, 3)
    assert counted_flops(row) == pytest.approx(
        tokens * (passes * m.layers * per_layer + head * 2 * m.hidden * m.vocab), rel=1e-9
    )


def test_from_table_1_to_table_2():
    e = errors("SC21 table 1", "SC21 table 2, PTD")
    assert e.held_out
    assert e.mean <= 0.02
    assert e.worst <= 0.03
    # although that one was fitted on these very rows
    assert e.mean <= 0.5 * mean(e.one_constant)
    assert e.mean <= 0.5 * mean(e.constant_held_out)


def test_from_table_2_to_table_1():
    e = errors("SC21 table 2, PTD", "SC21 table 1")
    assert e.held_out
    assert e.mean <= 0.03
    assert e.worst <= 0.06
    # although that one was fitted on these very rows
    assert e.mean <= 0.5 * mean(e.one_constant)
    assert e.mean <= 0.5 * mean(e.constant_held_out)


@pytest.mark.parametrize(
    ("fitted_on", "most", "worst"),
    [("SC21 table 1", 0.08, 0.12), ("SC21 table 2, PTD", 0.15, 0.18)],
)
def test_zero_3_collapses_as_published(fitted_on, most, worst):
    """Twice the GPUs and half the micro-batch, twice over: the gathers stay, the computing halves.
    530B is held out altogether."""
    e = errors(fitted_on, "SC21 table 2, ZeRO-3 530B")
    assert e.held_out
    assert e.mean <= most
    assert e.worst <= worst
    assert e.mean <= 0.5 * mean(e.one_constant)
    ours, published = e.predicted, [row.tflops for row in TABLE_2_ZERO_530B]
    assert ours[0] > 1.2 * ours[1] > 2 * ours[2]
    assert ours[2] / ours[1] == pytest.approx(published[2] / published[1], rel=0.12)
    assert not errors(fitted_on, "SC21 table 2, ZeRO-3 175B").held_out


def test_h100_with_only_the_hardware_changed_misses():
    """Said openly: 10 % off on average, where SC21's mean share of the peak is 7 % off. Small
    models come out too fast (their micro-batches are not printed), and 32B 28 % too slow: four
    micro-batches hide too little of 16 GB of fp32 gradients."""
    e = errors("SC21 table 1 + SC21 table 2, PTD", "H100")
    assert e.mean <= 0.11
    assert max(e.ours, key=abs) == e.ours[3] >= -0.3
    assert max(abs(error) for error in (*e.ours[:3], *e.ours[4:])) <= 0.15
    assert e.mean > mean(e.constant_held_out)


def test_the_constants_in_use_are_these():
    both = all_errors()[-1][0]
    assert vars(SC21) == pytest.approx(vars(both), rel=0.02)
    row = TABLE_1[5]
    assert predicted(row, SC21) == pytest.approx(predicted(row, both), rel=5e-3)
