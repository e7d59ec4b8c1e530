"""Every byte of a step of one process, estimated against measured on live tensors: states, saved
activations, copies, the peak and what it is made of; and every FLOP.

300 random models in `make test-all`; in `make test` those of them in which any two values meet."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pairs import to_run
from random_runs import of_one_process, values

from lab_utils import TrainConfig, estimate, launch

pytestmark = pytest.mark.timeout(900)  # all models run in one launch
ALL = [of_one_process(seed) for seed in range(300)]
CONFIGS = to_run(ALL, values)
# fp16 is slow on a CPU
SHORT = dict(
    hidden=8, heads=2, seq=4, vocab=256, global_batch=2, steps=2, precision="fp16", loss_scale=8.0
)
FP16 = [
    TrainConfig.of("tiny", layers=1, **SHORT),
    TrainConfig.of("tiny", layers=2, recompute="full", clip=1.0, **SHORT),
]
TERMS = ("parameters", "gradients", "optimizer", "activations", "weight_copies", "peak")


def memory_and_flops(configs: list[TrainConfig]) -> list[tuple[dict[str, Any], dict[str, int]]]:
    from lab_utils.train.loop import run_rank

    results = [run_rank(config, "ours", keep_gradients=False) for config in configs]
    return [(result.report.memory, result.flops) for result in results]


@pytest.fixture(scope="module")
def measured() -> list[tuple[dict[str, Any], dict[str, int]]]:
    return launch(memory_and_flops, 1, CONFIGS + FP16, threads=1, timeout=300)[0]


def test_the_draw_covers_what_it_has_to():
    assert len(set(ALL)) >= 295
    for name, least in (
        ("recompute", 20),
        ("precision", 40),
        ("optimizer", 100),
        ("clip", 100),
        ("micro_batches", 60),
    ):
        assert (
            min(
                Counter(
                    getattr(c, name)
                    for c in ALL
                    if name != "recompute" or c.recompute in ("none", "selective", "full", "0")
                ).values()
            )
            >= least
        )
    for name, least in (
        ("attention", 100),
        ("norm", 100),
        ("activation", 100),
        ("positions", 100),
        ("tied", 100),
        ("bias", 100),
    ):
        assert min(Counter(getattr(c.model, name) for c in ALL).values()) >= least
    assert sum(c.model.kv_heads < c.model.heads for c in ALL) >= 100
    # more blocks than the closed form plays through
    assert sum(c.model.layers > 4 for c in ALL) >= 50


def test_every_byte_and_every_flop(measured):
    for config, (memory, flops) in zip(CONFIGS + FP16, measured, strict=True):
        report = estimate(config)
        expected = report.ranks[0].memory
        assert {term: memory[term] for term in TERMS} == {term: expected[term] for term in TERMS}, (
            config
        )
        assert flops == {kind: report.flops[kind] for kind in ("model", "hardware", "update")}, (
            config
        )
        assert sum(memory["at_peak"].values()) == memory["peak"]


def test_what_the_peak_is_made_of(measured):
    """The same terms at the same moment; where two moments are equally high, either may be
    named."""
    other = []
    for config, (memory, _) in zip(CONFIGS, measured, strict=False):
        if {term: nbytes for term, nbytes in memory["at_peak"].items() if nbytes} != estimate(
            config
        ).ranks[0].memory["at_peak"]:
            other.append(config)
    assert len(other) <= 3, other


def test_copies_of_weights_are_those_of_one_micro_batch_in_flight(measured):
    for config, (memory, _) in zip(CONFIGS, measured, strict=False):
        # the head's, where all blocks are recomputed
        assert (memory["weight_copies"] > 0) == (config.precision == "bf16"), config
