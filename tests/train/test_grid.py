"""Every layout trains the same model as one process, holds the bytes that the formula says, and
sends what it says; in bf16 as one process in bf16 does."""

from __future__ import annotations

from collections import Counter

import pytest
from equality import Run, gradient_error, loss_error, runs_on_rank, together
from layouts import alone, corners, drawn, layouts, named, pairwise, to_run, values, with_context
from pairs import EXHAUSTIVE, pairs_of

from lab_utils import TrainConfig, estimate, launch

pytestmark = pytest.mark.timeout(2400)  # all layouts of a size of the world run in one launch
WORLDS = (2, 4, 8)
TOLERANCE = {"fp32": (1e-6, 1e-6), "bf16": (5e-3, 2e-2), "bf16-pure": (5e-3, 2e-2)}
TERMS = (
    "parameters",
    "gradients",
    "optimizer",
    "offloaded",
    "buckets",
    "gathered",
    "activations",
    "weight_copies",
)


def run_all(configs: list[TrainConfig]) -> list[Run]:
    """In as few launches as there are sizes of the world."""
    found: dict[int, Run] = {}
    for world in sorted({config.parallel.world_size for config in configs}):
        numbers = [i for i, config in enumerate(configs) if config.parallel.world_size == world]
        cases = [(configs[i], "ours") for i in numbers]
        found.update(
            zip(
                numbers,
                together(cases, launch(runs_on_rank, world, cases, threads=1, timeout=120)),
                strict=True,
            )
        )
    return [found[i] for i in range(len(configs))]


@pytest.fixture(scope="module")
def one_process() -> dict[TrainConfig, Run]:
    references = list(dict.fromkeys(alone(config) for config in to_run()))
    return dict(zip(references, run_all(references), strict=True))


@pytest.fixture(scope="module", params=WORLDS)
def runs(request) -> dict[TrainConfig, Run]:
    here = [config for config in to_run() if config.parallel.world_size == request.param]
    return dict(zip(here, run_all(here), strict=True))


@pytest.mark.parametrize("most", [4, 8])
def test_any_two_values_meet_in_a_layout(most):
    """All pairs that can stand together: drawn anew, there is none that is missing."""
    held = frozenset().union(*(pairs_of(values(config)) for config in pairwise(most)))
    for seed in (0, 1):
        assert all(pairs_of(values(config)) <= held for config in drawn(seed, most=most))


def test_what_runs_is_what_was_drawn():
    assert len(corners()) == 4
    assert {*(pairwise(8) if EXHAUSTIVE else (*pairwise(4), *corners()))} <= set(to_run())
    assert {config.parallel.world_size for config in to_run()} == set(WORLDS)


def test_all_layouts_cover_what_they_have_to():
    every = layouts()
    assert len(set(every)) >= 80
    p = [config.parallel for config in every]
    assert {d for x in p for d in (x.dp, x.tp, x.pp)} == {1, 2, 4}
    assert max(x.world_size for x in p) == 8
    assert all(count >= 10 for count in Counter(x.zero for x in p if x.dp > 1).values())
    assert len({x.zero for x in p if x.dp > 1}) == 4
    assert Counter(x.schedule for x in p if x.pp > 1).keys() == {
        "gpipe",
        "1f1b",
        "interleaved",
        "zero-bubble",
    }
    assert all(count >= 8 for count in Counter(x.schedule for x in p if x.pp > 1).values())
    assert {config.micro_batches for config in every} == {1, 4}
    assert {config.recompute for config in every} == {"none", "selective", "full", "0,2"}
    assert {(c.model.norm, c.model.tied) for c in every} == {
        (n, t) for n in ("layernorm", "rmsnorm") for t in (True, False)
    }
    assert sum(c.optimizer == "sgd" and c.clip > 0 for c in every) >= 20
    assert sum(c.optimizer == "adamw" for c in every) >= 20
    assert sum(x.sequence_parallel for x in p) >= 15
    assert sum(x.offload for x in p) >= 5
    uneven = {c for c in every if c.model.layers == 5}
    three = {c for c in every if min(c.parallel.dp, c.parallel.tp, c.parallel.pp) > 1}
    assert len(uneven | three) >= 20


def test_all_layouts_with_context_parallelism_cover_what_they_have_to():
    every = with_context()
    p = [config.parallel for config in every]
    assert len(set(every)) >= 40
    assert Counter((x.cp, x.cp_kind) for x in p).keys() == {
        (n, kind) for n in (2, 4) for kind in ("ring", "all-to-all")
    }
    assert all(count >= 8 for count in Counter((x.cp_kind, x.zero) for x in p).values())
    assert all(sum(getattr(x, axis) > 1 for x in p) >= 12 for axis in ("dp", "tp", "pp"))
    assert {config.recompute for config in every} == {"none", "selective", "full", "0,2"}
    assert sum(x.sequence_parallel for x in p) >= 5
    assert sum(config.micro_batch == 1 for config in every) >= 5


def test_equal_to_one_process(runs, one_process):
    worst: dict[str, list[float]] = {}
    for config, run in runs.items():
        reference = one_process[alone(config)]
        errors = loss_error(run, reference), gradient_error(run, reference)
        loss, gradients = TOLERANCE[config.precision]
        said = f"{named(config)}: losses {errors[0]:.1e}, first gradients {errors[1]:.1e}"
        assert errors[0] <= loss, said
        assert errors[1] <= gradients, said
        pair = worst.setdefault(config.precision, [0.0, 0.0])
        pair[:] = [max(two) for two in zip(pair, errors, strict=True)]
    for precision, (loss, gradients) in worst.items():
        print(
            f"{len(run.ranks)} ranks, {precision}, {len(runs)} layouts in all: losses within"
            f" {loss:.1e}, first gradients within {gradients:.1e} of their norm"
        )


def test_clipping_was_at_work(one_process):
    clipped = [config for config in one_process if config.clip > 0 and config.optimizer == "sgd"]
    assert clipped
    free = run_all([config.replace(clip=0.0) for config in clipped])
    for config, run in zip(clipped, free, strict=True):
        assert abs(one_process[config].losses[-1] - run.losses[-1]) > 1e-4, named(config)


def test_bytes_and_traffic_are_the_formulas(runs):
    for config, run in runs.items():
        predicted = estimate(config)
        assert run.flops == {k: predicted.flops[k] for k in ("model", "hardware")}, named(config)
        for measured, expected in zip(run.ranks, predicted.ranks, strict=True):
            assert measured.coords == expected.coords
            for term in TERMS:
                assert measured.memory.get(term, 0) == expected.memory[term], (
                    named(config),
                    measured.coords,
                    term,
                )
            assert {(e.op, e.axis, e.purpose): e for e in measured.traffic} == {
                (e.op, e.axis, e.purpose): e for e in expected.traffic
            }, named(config)


def test_the_peak_is_the_simulations(runs):
    """To the byte, unless a collective's own thread held a tensor longer than the rank did: then
    that tensor comes on top."""
    pairs = [
        (config, m.memory["peak"], e.memory["peak"])
        for config, run in runs.items()
        for m, e in zip(run.ranks, estimate(config).ranks, strict=True)
    ]
    exact = sum(measured == expected for _, measured, expected in pairs)
    print(
        f"peak: {exact} of {len(pairs)} ranks to the byte, at worst"
        f" {max(abs(m - e) / m for _, m, e in pairs):.1%} off"
    )
    assert exact >= 0.75 * len(pairs)
    for config, measured, expected in pairs:
        assert 0.9 * measured <= expected <= measured, (named(config), measured, expected)
