"""The closed forms of traffic, in the words of the papers, held against what runs really sent."""

from __future__ import annotations

import pytest

from lab_utils import Report, TrainConfig, estimate, train
from lab_utils.layout.parameters import parameter_count

# every unit's size is even
BASE = TrainConfig.of(layers=4, hidden=32, heads=4, seq=16, steps=2, global_batch=8)
LAYER_OUTPUT = 16 * 32 * 4  # bytes of one sequence between two blocks


def both(config: TrainConfig) -> Report:
    """The measured report, after a look that the estimated one says the same."""
    measured = train(config, threads=1)
    for a, b in zip(measured.ranks, estimate(config).ranks, strict=True):
        assert {(e.op, e.axis, e.purpose): e for e in a.traffic} == {
            (e.op, e.axis, e.purpose): e for e in b.traffic
        }
    return measured


@pytest.mark.parametrize("dp", [2, 4])
def test_zero_against_data_parallelism_by_micro_batches(dp):
    ring = 2 * (dp - 1) * 4 * parameter_count(BASE.model) // dp
    for m in (1, 2):
        config = BASE.replace(dp=dp, micro_batch=8 // dp // m)
        assert config.micro_batches == m
        wire = {
            zero: both(config.replace(zero=zero)).ranks[0].total("wire_bytes", axis="dp")
            for zero in range(4)
        }
        assert wire[0] == wire[1] == ring  # whatever m is
        assert wire[2] * 2 == ring * (m + 1)
        assert wire[3] * 2 == ring * 3 * m


def test_four_all_reduces_a_layer_and_a_quarter_more_bytes_under_sequence_parallelism():
    for m in (1, 4):
        config = BASE.replace(tp=2, micro_batch=8 // m)
        deeper = config.replace(layers=6)
        plain, scattered = (
            [both(c.replace(sequence_parallel=sp)).ranks[0] for c in (config, deeper)]
            for sp in (False, True)
        )
        calls, wire = (
            [rank.total(what, purpose="activation") for rank in plain]
            for what in ("calls", "wire_bytes")
        )
        assert calls[1] - calls[0] == 2 * 4 * m  # of two more layers
        # 2 (N−1)/N is 1 for two ranks
        assert wire[1] - wire[0] == 2 * 4 * 8 * LAYER_OUTPUT
        more = [rank.total("wire_bytes", purpose="activation") for rank in scattered]
        assert 4 * (more[1] - more[0]) == 5 * (wire[1] - wire[0])
        gathers, scatters = (
            [rank.total("calls", op=op, purpose="activation") for rank in scattered]
            for op in ("all_gather", "reduce_scatter")
        )
        assert (gathers[1] - gathers[0], scatters[1] - scatters[0]) == (2 * 6 * m, 2 * 4 * m)


def test_recomputing_a_layer_sends_its_forward_sums_again():
    config = BASE.replace(tp=2)
    calls = {
        policy: both(config.replace(recompute=policy)).ranks[0].total("calls", purpose="activation")
        for policy in ("none", "selective", "full", "1")
    }
    assert (
        calls["full"] - calls["none"],
        calls["1"] - calls["none"],
        calls["selective"] - calls["none"],
    ) == (2 * 4, 2, 0)


@pytest.mark.parametrize(
    ("schedule", "v"), [("gpipe", 1), ("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2)]
)
def test_a_pipeline_sends_one_layers_output_per_boundary_both_ways(schedule, v):
    for m in (2, 4):
        report = both(BASE.replace(pp=2, micro_batch=8 // m, schedule=schedule, virtual_stages=v))
        boundaries = 2 * v - 1
        assert (
            sum(rank.total("calls", op="send", purpose="activation") for rank in report.ranks)
            == 2 * boundaries * m
        )
        assert (
            sum(rank.total("wire_bytes", op="send") for rank in report.ranks)
            == 2 * boundaries * 8 * LAYER_OUTPUT
        )


def test_a_tied_embedding_and_the_norm_travel_once_a_step():
    report = both(BASE.replace(pp=2, tied=True, clip=1.0, micro_batch=2))
    for rank in report.ranks:
        assert rank.total("bytes", op="send", purpose="gradient") == 256 * 32 * 4
        assert rank.total("bytes", purpose="control") == 8
