"""Every optimizer trains the same model in every layout as on one process, keeps the bytes that the
estimate says on every rank, and sends what it says. About 25 s; `make test` runs each layout with
some of the optimizers, `make test-all` with all."""

from __future__ import annotations

import pytest
from optimizer_layouts import (
    KINDS,
    LAYOUTS,
    Trained,
    alone,
    config_of,
    put_together,
    train_on_rank,
    weights_error,
)
from pairs import EXHAUSTIVE

from lab_utils import TrainConfig, estimate, launch

WORLDS = (2, 3, 4, 8)
# losses (relative), weights after five steps (of their norm). What a rule makes of a rounding
# difference: Lion's sign turns where an update is nearly zero, 8-bit Adam rounds to another code
BOUNDS = {"lion": (1e-6, 1e-3), "adam8bit": (1e-6, 5e-5)}
USUAL = 1e-6, 1e-5
CASES = [
    (kind, layout)
    for number, layout in enumerate(LAYOUTS)
    for k, kind in enumerate(KINDS)
    if (EXHAUSTIVE or (number + k) % 3 == 0)
    and not (kind == "muon" and layout.get("offload"))  # which is refused
]


def run_all(configs: list[TrainConfig]) -> list[Trained]:
    found: dict[int, Trained] = {}
    for world in sorted({config.parallel.world_size for config in configs}):
        numbers = [i for i, c in enumerate(configs) if c.parallel.world_size == world]
        here = [configs[i] for i in numbers]
        ranks = launch(train_on_rank, world, here, threads=1, timeout=60)
        found.update(zip(numbers, put_together(here, ranks), strict=True))
    return [found[i] for i in range(len(configs))]


@pytest.fixture(scope="module")
def one_process() -> dict[TrainConfig, Trained]:
    configs = list(dict.fromkeys(alone(kind, layout) for kind, layout in CASES))
    return dict(zip(configs, run_all(configs), strict=True))


@pytest.fixture(scope="module", params=WORLDS)
def runs(request):
    here = [
        (kind, layout)
        for kind, layout in CASES
        if config_of(kind, layout).parallel.world_size == request.param
    ]
    configs = [config_of(kind, layout) for kind, layout in here]
    return list(zip(here, configs, run_all(configs), strict=True))


def test_there_are_forty_layouts_and_every_optimizer_is_in_many():
    assert len(KINDS) * len(LAYOUTS) >= 40
    assert all(sum(kind == k for k, _ in CASES) >= 6 for kind in KINDS)


def test_equal_to_one_process(runs, one_process):
    worst: dict[str, list[float]] = {}
    for (kind, layout), _, run in runs:
        reference = one_process[alone(kind, layout)]
        loss = max(abs(a - b) / b for a, b in zip(run.losses, reference.losses, strict=True))
        weights = weights_error(run, reference)
        if kind == "adam8bit" and layout.get("tp", 1) > 1:
            continue  # its blocks lie otherwise: the next test
        bounds = BOUNDS.get(kind, USUAL)
        said = f"{kind} {layout}: losses {loss:.1e}, weights {weights:.1e}"
        assert loss <= bounds[0], said
        assert weights <= bounds[1], said
        pair = worst.setdefault(kind, [0.0, 0.0])
        pair[:] = [max(pair[0], loss), max(pair[1], weights)]
    for kind, (loss, weights) in worst.items():
        print(f"{kind}: losses within {loss:.1e}, weights within {weights:.1e} of their norm")


def test_tensor_parallel_blocks_cost_no_more_than_blocks_do():
    """A row-parallel weight's blocks of 256 hold other elements than the whole weight's: under tp
    8-bit Adam is another quantisation of the same AdamW, and no farther from it."""
    layout = dict(tp=2)
    run, unquantised, quantised = run_all(
        [config_of("adam8bit", layout), alone("adamw", layout), alone("adam8bit", layout)]
    )
    by_blocks, apart = weights_error(quantised, unquantised), weights_error(run, quantised)
    print(f"8-bit against plain AdamW {by_blocks:.1e}, under {layout} {apart:.1e}")
    assert weights_error(run, unquantised) <= 1.5 * by_blocks
    assert apart <= by_blocks


def test_every_byte_is_estimated(runs):
    exact: list[bool] = []
    for (kind, layout), config, run in runs:
        estimated = estimate(config)
        for rank, (e, m) in enumerate(zip(estimated.ranks, run.ranks, strict=True)):
            said = (kind, layout, rank)
            for term in ("parameters", "gradients", "optimizer", "activations"):
                assert e.memory[term] == m.memory[term], (*said, term)
            # above it where a collective has not yet let go of a tensor that it sent
            sent = max((entry.bytes // entry.calls for entry in e.traffic), default=0)
            over = m.memory["peak"] - e.memory["peak"]
            assert 0 <= over <= sent, (*said, over)
            exact.append(over == 0)
            assert set(e.traffic) == set(m.traffic), said
        for term in ("model", "hardware", "update"):
            assert estimated.flops[term] == run.flops[term], (kind, layout, term)
    print(f"peak to the byte on {sum(exact)} of {len(exact)} ranks")
    assert sum(exact) >= 0.8 * len(exact)
