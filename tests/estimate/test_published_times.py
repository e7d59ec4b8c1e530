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
from published_aside import KORTHIKANTI, LLAMA, one_constant
from published_aside import errors as errors_aside
from published_aside import machine as machine_aside

from lab_utils.estimate.hardware.fitted import SC21
from lab_utils.estimate.time.frameworks import MEGATRON_2022, MEGATRON_CORE, MEGATRON_SC21
from lab_utils.estimate.time.step import step_parts
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
    """Said openly: 7 % off on average, where SC21's mean share of the peak is 7 % off, too, and one
    constant fitted on these very rows 5.5 %. Micro-batches are not printed: of those that fit the
    fastest is taken, for micro-batches of one sequence hide too little of 16 GB of fp32 gradients
    (32B was 28 % too slow, the mean 9.6 %). The smallest model comes out 17 % too fast."""
    e = errors("SC21 table 1 + SC21 table 2, PTD", "H100")
    print(f"H100: ours {e.mean:.1%}, one constant {mean(e.one_constant):.1%}")
    assert e.mean <= 0.075
    assert max(e.ours, key=abs) == e.ours[0] <= 0.17
    assert max(abs(error) for error in e.ours[1:]) <= 0.11
    assert e.mean > mean(e.constant_held_out) > mean(e.one_constant)


def test_what_took_no_part_in_any_fit_is_no_longer_too_slow_throughout():
    """Korthikanti's eight iterations, too slow one and all as SC21's Megatron-LM would carry them
    out; as that of 2022 did, within 5 % on average. Nothing is fitted on them."""
    before, now = (errors_aside(KORTHIKANTI, f) for f in (MEGATRON_SC21, MEGATRON_2022))
    trivial = one_constant(KORTHIKANTI)
    print(f"aside: {mean(before):.1%}, now {mean(now):.1%}, one constant {mean(trivial):.1%}")
    assert min(before) > 0.03
    assert mean(now) <= 0.045 < 0.06 < mean(before)
    assert max(map(abs, now)) <= 0.1
    assert max(map(abs, now[:4])) <= 0.02  # 22B and 175B; the bias of 530B and 1T is not explained
    assert mean(now) <= 0.5 * mean(trivial)


def test_llama_405b_at_the_speed_that_was_published():
    """Interleaved with one layer a stage, the fastest; under 1F1B a fifth slower and more."""
    found = errors_aside(LLAMA, MEGATRON_CORE)
    assert max(map(abs, found)) <= 0.03
    assert mean(found) <= 0.5 * mean(one_constant(LLAMA))
    plain = tuple(row._replace(configs=row.configs[:1]) for row in LLAMA)
    assert min(errors_aside(plain, MEGATRON_CORE)) >= 0.2


def test_messages_travel_under_products_backward():
    """At most what entering a region sends backward, and never without products to travel under."""
    config, cluster = KORTHIKANTI[1].configs[0], machine_aside(KORTHIKANTI[1])
    plain, under = (step_parts(config, cluster, f) for f in (MEGATRON_SC21, MEGATRON_2022))
    hidden = under.hidden - plain.hidden
    assert 0 < hidden < plain.axes["tp"]
    shown = plain.axes["tp"] - hidden * (1 - cluster.overlap_cost)
    assert under.axes["tp"] == pytest.approx(shown)
    assert under.compute == plain.compute
    # forward: two gathers and two sums a layer; backward: two more gathers, six messages in all, of
    # which the four at the entrances are hidden; and as much at the head
    assert hidden / plain.axes["tp"] == pytest.approx(4 / 10, abs=0.01)


def test_the_constants_in_use_are_these():
    both = all_errors()[-1][0]
    assert vars(SC21) == pytest.approx(vars(both), rel=0.02)
    row = TABLE_1[5]
    assert predicted(row, SC21) == pytest.approx(predicted(row, both), rel=5e-3)
