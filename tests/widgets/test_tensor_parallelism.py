"""The tensor-parallelism tool as data: its walk makes the collectives that the estimator counts,
and its figures are the estimator's. What holds for every tool is tested in test_all_tools.py."""

from __future__ import annotations

import pytest

from lab_utils.config import TrainConfig
from lab_utils.estimate import estimate
from lab_utils.estimate.hardware import cluster
from lab_utils.estimate.time import step_time
from lab_utils.estimate.traffic import step_traffic
from lab_utils.layout.wire import wire_bytes
from lab_utils.widgets.frame.controls import start_state
from lab_utils.widgets.frame.units import nbytes, percent, seconds
from lab_utils.widgets.tensor_parallelism import bars, costs, walk, walk_scene

LIVE = {"ranks": 4, "sequence": True, "model": "llama3-8b", "micro_batch": 2}


def calls_of_a_layer(sequence: bool) -> dict[str, int]:
    """By the estimator: what a model of two layers calls more than a model of one."""
    found: dict[str, int] = {}
    for layers, sign in ((2, 1), (1, -1)):
        config = TrainConfig.of(
            "tiny", layers=layers, tp=4, sequence_parallel=sequence, global_batch=24
        )
        for entry in step_traffic(config):
            if entry.purpose == "activation":
                op = entry.op.replace("_", "-")
                found[op] = found.get(op, 0) + sign * entry.calls
    return {op: calls for op, calls in found.items() if calls}


@pytest.mark.parametrize("sequence", [False, True])
def test_the_walk_makes_the_collectives_of_a_layer(sequence):
    assert walk.calls_until(walk.MOMENTS[-1], sequence) == calls_of_a_layer(sequence)


def test_sequence_parallelism_sends_a_quarter_more():
    sent = [
        sum(
            calls * wire_bytes(op.replace("-", "_"), 1024, 4)
            for op, calls in walk.calls_until(walk.MOMENTS[-1], sequence).items()
        )
        for sequence in (False, True)
    ]
    assert sent[1] == 1.25 * sent[0]


@pytest.mark.parametrize("sequence", [False, True])
def test_a_summand_becomes_a_sum_by_a_collective_and_never_by_itself(sequence):
    parts = []
    for moment in walk.MOMENTS:
        part = walk.part_of_tensor if moment.phase == "forward" else walk.part_of_gradient
        parts.append(part(moment.column, sequence))
    for before, after, moment in zip(parts, parts[1:], walk.MOMENTS[1:], strict=False):
        op = walk.travels(moment, sequence)
        assert (before == "summand") == (op in ("all-reduce", "reduce-scatter")), moment
        if before != after and {before, after} == {"tokens", "whole"}:
            assert op == "all-gather", moment


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("sequence", [False, True])
def test_the_figures_are_the_estimators(ranks, sequence):
    state = LIVE | {"ranks": ranks, "sequence": sequence}
    config = TrainConfig.of(
        "llama3-8b",
        tp=ranks,
        sequence_parallel=sequence,
        global_batch=2,
        micro_batch=2,
        precision="bf16-pure",
    )
    h100 = cluster("H100-SXM")
    rank, step = estimate(config, h100).ranks[0], step_time(config, h100)
    items = bars.scene(state, "en")["items"]
    shown = {item["key"]: item["text"] for item in items if item["tag"] == "text"}
    assert shown["figure0"] == nbytes(rank.memory["peak"])
    assert shown["figure1"] == seconds(step.step)
    assert shown["figure2"] == percent(step.communication / step.step)
    assert shown["amount-activations"].startswith(nbytes(rank.memory["activations"]))
    assert shown["amount-sent"] == nbytes(rank.total("wire_bytes", axis="tp"))
    bar = next(item for item in items if item["key"] == "bar-flops")
    assert bar["width"] == pytest.approx(420 / ranks, rel=1e-3)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_too_few_heads_are_refused_in_words(lang):
    state = LIVE | {"ranks": 16}
    assert costs.cost_of(state) is None
    assert "8" in bars.scene(state, lang)["alt"]


def test_cut_slices_fill_their_matrix(tool_of):
    state = start_state(tool_of("tensor_parallelism", "en").controls) | {"ranks": 8}
    items = {item["key"]: item for item in walk_scene.scene(state, "en")["items"]}
    for name, cut in walk.CUT.items():
        side = "width" if cut == "columns" else "height"
        slices = sum(items[f"w-{name}{rank}"][side] for rank in range(8))
        assert slices == pytest.approx(items[f"w-{name}"][side], abs=0.5)
