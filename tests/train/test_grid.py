"""Every layout trains the same model as one process, holds the bytes that the formula says, and sends what it says."""

from __future__ import annotations

from collections import Counter

import pytest
from equality import Run, gradient_error, loss_error, runs_on_rank, together
from layouts import alone, layouts, named

from lab_utils import TrainConfig, estimate, launch

LAYOUTS = layouts()
WORLDS = sorted({config.parallel.world_size for config in LAYOUTS})


def run_all(configs: list[TrainConfig]) -> list[Run]:
    """In as few launches as there are sizes of the world."""
    found: dict[int, Run] = {}
    for world in sorted({config.parallel.world_size for config in configs}):
        numbers = [i for i, config in enumerate(configs) if config.parallel.world_size == world]
        cases = [(configs[i], "ours") for i in numbers]
        found.update(zip(numbers, together(cases, launch(runs_on_rank, world, cases, threads=1, timeout=120)), strict=True))
    return [found[i] for i in range(len(configs))]


@pytest.fixture(scope="module")
def one_process() -> dict[TrainConfig, Run]:
    references = list(dict.fromkeys(alone(config) for config in LAYOUTS))
    return dict(zip(references, run_all(references), strict=True))


@pytest.fixture(scope="module", params=WORLDS)
def runs(request) -> dict[TrainConfig, Run]:
    here = [config for config in LAYOUTS if config.parallel.world_size == request.param]
    return dict(zip(here, run_all(here), strict=True))


def test_the_grid_covers_what_it_has_to():
    assert len(set(LAYOUTS)) >= 80
    p = [config.parallel for config in LAYOUTS]
    assert {d for x in p for d in (x.dp, x.tp, x.pp)} == {1, 2, 4}
    assert max(x.world_size for x in p) == 8
    assert all(count >= 10 for count in Counter(x.zero for x in p if x.dp > 1).values())
    assert len({x.zero for x in p if x.dp > 1}) == 4
    assert Counter(x.schedule for x in p if x.pp > 1).keys() == {"gpipe", "1f1b", "interleaved", "zero-bubble"}
    assert all(count >= 8 for count in Counter(x.schedule for x in p if x.pp > 1).values())
    assert {config.micro_batches for config in LAYOUTS} == {1, 4}
    assert {config.recompute for config in LAYOUTS} == {"none", "selective", "full", "0,2"}
    assert {(c.model.norm, c.model.tied) for c in LAYOUTS} == {(n, t) for n in ("layernorm", "rmsnorm") for t in (True, False)}
    assert sum(c.optimizer == "sgd" and c.clip > 0 for c in LAYOUTS) >= 20
    assert sum(c.optimizer == "adamw" for c in LAYOUTS) >= 20
    assert sum(x.sequence_parallel for x in p) >= 15
    assert sum(x.offload for x in p) >= 5
    uneven = {c for c in LAYOUTS if c.model.layers == 5}
    three = {c for c in LAYOUTS if min(c.parallel.dp, c.parallel.tp, c.parallel.pp) > 1}
    assert len(uneven | three) >= 20


def test_equal_to_one_process(runs, one_process):
    worst = [0.0, 0.0]
    for config, run in runs.items():
        reference = one_process[alone(config)]
        errors = loss_error(run, reference), gradient_error(run, reference)
        assert max(errors) <= 1e-6, f"{named(config)}: losses {errors[0]:.1e}, first gradients {errors[1]:.1e}"
        worst = [max(pair) for pair in zip(worst, errors, strict=True)]
    print(f"{len(run.ranks)} ranks, {len(runs)} layouts: losses within {worst[0]:.1e}, first gradients within {worst[1]:.1e} of their norm")


def test_clipping_was_at_work(one_process):
    pairs = [(run, one_process.get(config.replace(clip=0.0))) for config, run in one_process.items() if config.clip > 0 and config.optimizer == "sgd"]
    differences = [abs(a.losses[-1] - b.losses[-1]) for a, b in pairs if b is not None]
    assert differences
    assert min(differences) > 1e-4


def test_bytes_and_traffic_are_the_formulas(runs):
    for config, run in runs.items():
        predicted = estimate(config)
        assert run.flops == {k: predicted.flops[k] for k in ("model", "hardware")}, named(config)
        for measured, expected in zip(run.ranks, predicted.ranks, strict=True):
            assert measured.coords == expected.coords
            for term in ("parameters", "gradients", "optimizer", "offloaded", "buckets", "gathered", "activations", "weight_copies"):
                assert measured.memory.get(term, 0) == expected.memory[term], (named(config), measured.coords, term)
            assert {(e.op, e.axis, e.purpose): e for e in measured.traffic} == {(e.op, e.axis, e.purpose): e for e in expected.traffic}, named(config)


def test_the_peak_is_the_simulations(runs):
    """To the byte, unless a collective's own thread held a tensor longer than the rank did: then that tensor comes on top."""
    pairs = [(config, m.memory["peak"], e.memory["peak"]) for config, run in runs.items() for m, e in zip(run.ranks, estimate(config).ranks, strict=True)]
    exact = sum(measured == expected for _, measured, expected in pairs)
    print(f"peak: {exact} of {len(pairs)} ranks to the byte, at worst {max(abs(m - e) / m for _, m, e in pairs):.1%} off")
    assert exact >= 0.75 * len(pairs)
    for config, measured, expected in pairs:
        assert 0.9 * measured <= expected <= measured, (named(config), measured, expected)


BASE = TrainConfig.of(layers=4, hidden=32, heads=4, seq=16, steps=5, global_batch=16, micro_batch=2, optimizer="sgd", clip=0.25)
PRECISIONS = [
    BASE.replace(precision=precision, **layout)
    for precision in ("bf16", "bf16-pure")
    for layout in ({"dp": 2}, {"dp": 2, "zero": 1}, {"dp": 2, "zero": 2, "recompute": "full"}, {"dp": 2, "zero": 3},
                   {"dp": 2, "zero": 3, "tied": True}, {"tp": 2},
                   {"tp": 2, "sequence_parallel": True, "recompute": "selective"}, {"pp": 2}, {"pp": 2, "schedule": "zero-bubble"},
                   {"dp": 2, "tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True}, {"dp": 2, "tp": 2, "pp": 2, "zero": 3, "offload": True})
]  # fmt: skip


def test_bf16_layouts_train_as_one_process_in_bf16():
    references = dict.fromkeys(alone(config) for config in PRECISIONS)
    one = dict(zip(references, run_all(list(references)), strict=True))
    worst = 0.0
    for config, run in zip(PRECISIONS, run_all(PRECISIONS), strict=True):
        error = loss_error(run, one[alone(config)])
        assert error <= 5e-3, f"{named(config)}: losses {error:.1e}"
        assert gradient_error(run, one[alone(config)]) <= 2e-2, named(config)
        worst = max(worst, error)
        for measured, expected in zip(run.ranks, estimate(config).ranks, strict=True):
            for term in ("parameters", "gradients", "optimizer", "offloaded", "buckets", "gathered", "activations", "weight_copies"):
                assert measured.memory.get(term, 0) == expected.memory[term], (named(config), term)
            assert {(e.op, e.axis, e.purpose): e for e in measured.traffic} == {(e.op, e.axis, e.purpose): e for e in expected.traffic}, named(config)
    print(f"bf16: losses within {worst:.1e}")
