"""Any number of ranks trains the same model as one: the losses and the first gradients, in every
way that we synchronise.

Thirty steps of AdamW on two and four ranks and of SGD on three in `make test`, of both on all in
`make test-all`."""

from __future__ import annotations

import numpy as np
import pytest
from equality import Run, check_equal, runs_on_rank, together
from pairs import EXHAUSTIVE

from lab_utils import Report, TrainConfig, launch, train
from lab_utils.layout.parameters import parameter_count

STEPS = 30


def trained(config: TrainConfig, folder) -> tuple[Report, Run]:
    file = folder / f"{config.optimizer}{config.parallel.dp}.npz"
    report = train(config, threads=1, gradients=file)
    return report, Run(list(report.loss), dict(np.load(file)))


@pytest.mark.parametrize(
    ("optimizer", "ranks"),
    [("adamw", (2, 3, 4)), ("sgd", (2, 3, 4))]
    if EXHAUSTIVE
    else [("adamw", (2, 4)), ("sgd", (3,))],
)
def test_thirty_steps_on_one_to_four_ranks(optimizer, ranks, tmp_path):
    config = TrainConfig.of("tiny", steps=STEPS, optimizer=optimizer)
    reference, one = trained(config, tmp_path)
    assert len(one.losses) == STEPS
    assert np.log(256) == pytest.approx(one.losses[0], rel=0.01)  # it began by knowing nothing
    assert one.losses[-1] < 0.7 * one.losses[0]
    for dp in ranks:
        report, run = trained(config.replace(dp=dp), tmp_path)
        first, all_steps, gradients = check_equal(run, one)
        print(
            f"{optimizer} dp={dp}: losses {first:.1e} over 5 steps, {all_steps:.1e} over {STEPS},"
            f" first gradients {gradients:.1e} of their norm"
        )
        assert report.parameters == reference.parameters
        assert report.flops == reference.flops
        assert report.world_size == dp
        for rank in report.ranks:
            (entry,) = rank.traffic
            assert (entry.op, entry.axis, entry.purpose) == ("all_reduce", "dp", "gradient")
            assert entry.bytes == 4 * parameter_count(config.model)
            assert entry.wire_bytes * dp == 2 * (dp - 1) * entry.bytes or dp == 3
            assert abs(entry.wire_bytes - 2 * (dp - 1) / dp * entry.bytes) <= 0.5


BASE = TrainConfig.of("tiny", layers=2, steps=6)
VARIANTS = {  # what is changed, beside the number of ranks
    "naive": {"gradient_sync": "naive"},
    "sgd": {"optimizer": "sgd"},
    "sgd, naive, accumulated": {"optimizer": "sgd", "gradient_sync": "naive", "micro_batch": 2},
    "accumulated": {"micro_batch": 2},
    "one sequence at a time": {"micro_batch": 1},
    "tied": {"tied": True},
    "tied, naive, accumulated": {"tied": True, "gradient_sync": "naive", "micro_batch": 3},
    "a bucket per gradient": {"bucket_mib": 1e-6},
    "small buckets, accumulated": {"bucket_mib": 0.05, "micro_batch": 3},
    "one bucket": {"bucket_mib": 100.0},
    "llama": {
        "norm": "rmsnorm",
        "activation": "swiglu",
        "positions": "rope",
        "kv_heads": 2,
        "bias": False,
    },
    "sgd, clipped": {"optimizer": "sgd", "clip": 0.1},
    "explicit attention": {"attention": "explicit"},
    "other seed": {"seed": 7},
}


@pytest.fixture(scope="module")
def one_process() -> dict[str, Run]:
    of_the_model = (
        {k: v for k, v in change.items() if k not in ("micro_batch", "gradient_sync", "bucket_mib")}
        for change in VARIANTS.values()
    )
    cases = [(BASE.replace(**change), "ours") for change in of_the_model]
    return dict(
        zip(VARIANTS, together(cases, launch(runs_on_rank, 1, cases, threads=1)), strict=True)
    )


@pytest.mark.parametrize("dp", [2, 4])
def test_every_way_to_synchronise(dp, one_process):
    names = [
        name
        for name in VARIANTS
        if dp == 2
        or "accumulated" in name
        or "sgd" in name
        or "bucket" in name
        or name == "other seed"
    ]
    cases = [(BASE.replace(dp=dp, **VARIANTS[name]), "ours") for name in names]
    runs = dict(
        zip(names, together(cases, launch(runs_on_rank, dp, cases, threads=1)), strict=True)
    )
    for name, run in runs.items():
        check_equal(run, one_process[name])
    assert runs["other seed"].losses != runs["a bucket per gradient"].losses
    # clipping did something
    assert abs(runs["sgd, clipped"].losses[-1] - runs["sgd"].losses[-1]) > 1e-2
