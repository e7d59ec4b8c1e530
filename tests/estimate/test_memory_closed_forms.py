"""Memory in closed form equals the step played through action by action, for every layout; and what
it has to be fast for.

200 random layouts in `make test-all`; in `make test` those of them in which any two values
meet."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from pairs import to_run
from random_runs import of_many_ranks, values

from lab_utils import TrainConfig, estimate
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.memory.exact.lifetimes import simulate_step
from lab_utils.estimate.memory.fast import changes, closed_form
from lab_utils.estimate.memory.fast.closed_form import rank_memory
from lab_utils.layout.placement import placements

ALL = [of_many_ranks(seed) for seed in range(200)]
CONFIGS = to_run(ALL, values)


@pytest.mark.parametrize("shapes_by_numbers", [0, 10**9], ids=["formulas", "numbers"])
@pytest.mark.parametrize("first", range(0, len(CONFIGS), 25))
def test_equal_to_the_simulation(first, shapes_by_numbers, monkeypatch):
    monkeypatch.setattr(changes, "SHAPES_BY_NUMBERS", shapes_by_numbers)
    changes.stage_changes.cache_clear()
    closed_form._walk.cache_clear()
    for config in CONFIGS[first : first + 25]:
        p = config.parallel
        for pp, tp in ((pp, tp) for pp in range(p.pp) for tp in range(p.tp)):
            optimizer = model_state_bytes(config, pp, tp)["optimizer"]
            assert rank_memory(config, pp, tp, optimizer) == simulate_step(
                config, pp, tp, optimizer
            ), (config, pp, tp)


def test_small_buckets_are_those_of_the_rank_not_of_one_of_its_stages():
    """A norm's gradient that closes the last bucket of a stage has company from the next stage of
    the same rank."""
    config = TrainConfig.of(
        layers=4,
        hidden=32,
        heads=8,
        seq=16,
        kv_heads=4,
        norm="rmsnorm",
        activation="swiglu",
        bias=False,
        positions="rope",
        global_batch=16,
        micro_batch=4,
        cp=2,
        cp_kind="all-to-all",
        pp=2,
        schedule="interleaved",
        virtual_stages=2,
        bucket_mib=0.02,
    )
    for pp in range(2):
        assert rank_memory(config, pp, 0, 0) == simulate_step(config, pp, 0, 0)


def test_the_draw_covers_what_it_has_to():
    p = [config.parallel for config in ALL]
    assert min(sum(x.zero == stage for x in p) for stage in range(4)) >= 30
    assert (
        min(
            sum(x.schedule == name and x.pp > 1 for x in p)
            for name in ("gpipe", "1f1b", "interleaved", "zero-bubble")
        )
        >= 15
    )
    assert sum(x.virtual_stages > 1 and x.zero >= 2 for x in p) >= 5
    assert sum(x.sequence_parallel for x in p) >= 15
    assert sum(config.model.layers // x.pp > 4 for config, x in zip(ALL, p, strict=True)) >= 40


def test_a_deep_model_costs_no_more_than_a_shallow_one():
    """What is kept is so many times what a block keeps: 126 layers differ from 63 by 63 times what
    63 differ from 62 by."""

    def activations(layers: int) -> int:
        return (
            estimate(TrainConfig.of("llama3.1-405b", layers=layers, global_batch=1))
            .ranks[0]
            .memory["activations"]
        )

    assert activations(126) - activations(63) == 63 * (activations(63) - activations(62))


def test_estimating_is_quick():
    config, best = (
        TrainConfig.of("gpt2", precision="bf16", recompute="full", global_batch=8, micro_batch=2),
        float("inf"),
    )
    for _ in range(20):
        began = time.process_time()  # of this process alone: others may be at work
        estimate(config)
        best = min(best, time.process_time() - began)
    assert best <= 2e-3


def test_sixteen_thousand_ranks():
    config = TrainConfig.of(
        "llama3.1-405b",
        precision="bf16-pure",
        global_batch=2048,
        micro_batch=1,
        tp=8,
        pp=16,
        dp=128,
        zero=1,
        sequence_parallel=True,
    )
    began = time.thread_time()  # a browser of other tests may be at work in this process
    report = estimate(config)
    assert time.thread_time() - began <= 1
    assert report.world_size == 16384
    first = report.ranks[0]
    assert first.coords == {"dp": 0, "pp": 0, "cp": 0, "tp": 0}
    # 1F1B: the first stage holds most
    assert first.memory["peak"] == max(rank.memory["peak"] for rank in report.ranks[: 8 * 16])
    assert first.memory["parameters"] >= 2 * sum(
        place.numel for place in placements(config.model, config.parallel, 0, 0).values()
    )


def test_importing_takes_no_torch_and_no_time():
    code = (
        "import time; t = time.process_time(); import lab_utils.estimate, sys;"
        " print(time.process_time() - t, 'torch' in sys.modules)"
    )
    house, best = Path(__file__).resolve().parents[2], 9.0
    for _ in range(3):
        seconds, torch = subprocess.run(
            [sys.executable, "-c", code], cwd=house, capture_output=True, text=True, check=True
        ).stdout.split()
        assert torch == "False"
        best = min(best, float(seconds))
    assert best <= 0.3
