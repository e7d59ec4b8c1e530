"""fp16 for real: the loss scale shrinks, holds and grows as the rules say, and an overflow anywhere
skips the step everywhere."""

from __future__ import annotations

import pytest
from equality import gradient_error, runs_on_rank, together

from lab_utils import TrainConfig, launch, train

TINY = TrainConfig.of(
    layers=2,
    hidden=32,
    heads=4,
    seq=8,
    steps=6,
    global_batch=4,
    micro_batch=1,
    optimizer="sgd",
    precision="fp16",
    loss_scale=1024.0,
)


def test_skip_back_off_and_growth():
    report = train(TINY.replace(steps=9, loss_scale=2.0**40, loss_scale_window=2), threads=1)
    scales, skipped = list(report.loss_scale), set(report.skipped_steps)
    assert len(scales) == 9
    assert 0 in skipped  # 2^40 times the loss does not fit into fp16
    for step in range(8):
        expected = scales[step] / 2 if step in skipped else None
        grown = (
            step - 1 not in skipped
            and step not in skipped
            and step > 0
            and scales[step] == scales[step - 1]
        )
        assert scales[step + 1] == (expected or (2 * scales[step] if grown else scales[step])), (
            step,
            scales,
            skipped,
        )
    weights_unmoved = [a == b for a, b in zip(report.loss, report.loss[1:], strict=False)]
    # a skipped step leaves the weights alone, but the next batch is another: only that nothing
    # became infinite can be seen here
    assert not any(weights_unmoved)
    assert all(loss < 10 for loss in report.loss)


def test_the_scale_grows_after_a_window_of_good_steps():
    report = train(TINY.replace(steps=7, loss_scale_window=3), threads=1)
    assert report.skipped_steps == ()
    assert report.loss_scale == (1024.0,) * 3 + (2048.0,) * 3 + (4096.0,)


def overflow_on_one_rank(config: TrainConfig, culprit: int, step: int) -> tuple[list, list]:
    """Rank `culprit` makes one element of its own gradient infinite in one step."""
    import os

    import torch

    from lab_utils.data.loader import Loader
    from lab_utils.engines.ours import OurEngine
    from lab_utils.parallel.mesh import Mesh

    mesh = Mesh(config.parallel)
    engine, loader, applied = OurEngine(config, mesh), Loader(config, mesh["dp"].rank), []
    for number in range(3):
        engine.forward_backward(loader.batch(number))
        if number == step and int(os.environ["RANK"]) == culprit:
            engine.optimizer_shards[-1].gradient().view(-1)[-1] = torch.inf
        applied.append(engine.update())
    finite = [bool(torch.isfinite(o.weight).all()) for o in engine.optimizer_shards]
    return applied, [engine.scaler.scale, all(finite)]


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 2, "zero": 1},
        {"dp": 2, "zero": 2},
        {"dp": 2, "zero": 3},
        {"tp": 2},
        {"pp": 2},
        {"dp": 2, "pp": 2, "zero": 1},
    ],
    ids=str,
)
def test_one_ranks_overflow_skips_the_step_on_all(layout):
    config = TINY.replace(**layout)
    world = config.parallel.world_size
    for culprit in (0, world - 1):
        for applied, (scale, finite) in launch(
            overflow_on_one_rank, world, config, culprit, 1, threads=1
        ):
            assert applied == [True, False, True]
            assert scale == 512.0
            assert finite


@pytest.mark.parametrize(
    "layout",
    [
        {"dp": 2},
        {"dp": 2, "zero": 2},
        {"dp": 2, "zero": 3},
        {"tp": 2, "sequence_parallel": True},
        {"pp": 2},
    ],
    ids=str,
)
def test_fp16_trains_as_one_process_in_fp16(layout):
    configs = [TINY, TINY.replace(**layout)]
    one, run = (
        together(
            [(c, "ours")], launch(runs_on_rank, c.parallel.world_size, [(c, "ours")], threads=1)
        )[0]
        for c in configs
    )
    assert max(abs(a - b) / b for a, b in zip(run.losses, one.losses, strict=True)) <= 5e-3
    assert gradient_error(run, one) <= 1e-2
