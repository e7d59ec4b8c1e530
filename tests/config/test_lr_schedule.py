"""Learning-rate schedules: the published curves, their ends, and that skipped steps are none."""

from __future__ import annotations

import pytest
import torch

from lab_utils import TrainConfig, launch
from lab_utils.config.lr_schedule import learning_rate

STEPS, WARMUP = 40, 8


def rates(kind: str, **flags) -> list[float]:
    config = TrainConfig.of("tiny", lr=1.0, lr_schedule=kind, steps=STEPS, **flags)
    return [learning_rate(config, update) for update in range(STEPS)]


def transformers_rates(name: str, steps: int) -> list[float]:
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler(name, optimizer, num_warmup_steps=WARMUP, num_training_steps=steps)
    found = []
    for _ in range(steps):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


@pytest.mark.parametrize("kind", ["linear", "cosine"])
def test_as_transformers_but_for_its_update_at_rate_0(kind):
    """get_scheduler's first update has rate 0, and the update after its last one too: it moves
    nothing twice. Ours is the same line between its first rate above 0 and its end."""
    theirs = transformers_rates(kind, STEPS + 1)
    assert theirs[0] == 0
    ours = rates(kind, warmup=WARMUP, lr_end=0.0)
    assert ours[:WARMUP] == pytest.approx(theirs[1 : WARMUP + 1])
    # theirs would reach 0 one update after the last; ours at the last
    assert ours[-1] == pytest.approx(0.0, abs=1e-12)
    assert 0 < theirs[-1] < 0.05


def test_warmup_climbs_in_equal_steps_to_the_full_rate():
    for kind in ("constant", "linear", "cosine", "wsd", "inverse-sqrt"):
        found = rates(kind, warmup=WARMUP)
        assert found[:WARMUP] == pytest.approx([(i + 1) / WARMUP for i in range(WARMUP)])
        assert found[WARMUP - 1] == pytest.approx(1.0)
        assert max(found) == pytest.approx(1.0)
        assert rates(kind)[0] == pytest.approx(1.0)


def test_where_each_ends():
    for kind in ("linear", "cosine", "wsd", "one-cycle"):
        assert rates(kind, lr_end=0.1)[-1] == pytest.approx(0.1), kind
        assert rates(kind, lr_end=0.0)[-1] == pytest.approx(0.0, abs=1e-9), kind
    assert rates("constant") == [1.0] * STEPS
    assert rates("inverse-sqrt", warmup=WARMUP)[-1] == pytest.approx((WARMUP / STEPS) ** 0.5)


def test_shapes():
    cosine, linear, wsd = (
        rates(kind, warmup=WARMUP, lr_end=0.0) for kind in ("cosine", "linear", "wsd")
    )
    middle = WARMUP - 1 + (STEPS - WARMUP) // 2
    assert cosine[middle] == pytest.approx(0.5)
    assert linear[middle] == pytest.approx(0.5)
    falling = STEPS // 5
    assert wsd[WARMUP : STEPS - falling] == [1.0] * (STEPS - falling - WARMUP)
    assert wsd[STEPS - falling :] == pytest.approx(
        [1 - (i + 1) / falling for i in range(falling)], abs=1e-9
    )
    cycle = rates("one-cycle")
    assert cycle.index(max(cycle)) == 11  # the twelfth of forty
    assert cycle[:12] == sorted(cycle[:12])


def test_before_its_cooldown_wsd_knows_nothing_of_its_horizon():
    """So a run may be branched from: cosine's rate at the same update depends on the end."""

    def until(kind: str, steps: int) -> list[float]:
        config = TrainConfig.of("tiny", lr=1.0, lr_schedule=kind, steps=steps, warmup=4)
        return [learning_rate(config, update) for update in range(32)]

    assert until("wsd", 40) == until("wsd", 160)
    assert until("cosine", 40) != until("cosine", 160)


def rates_of_a_run(config: TrainConfig) -> tuple[list[bool], list[float]]:
    from lab_utils.engines.ours import engine_here

    engine, loader = engine_here(config)
    applied, seen = [], []
    for step in range(config.steps):
        engine.forward_backward(loader.batch(step))
        applied.append(engine.update())
        seen.append(engine.updates.optimizers[0].param_groups[0]["lr"])
    return applied, seen


def test_a_step_that_fp16_skipped_does_not_advance_it():
    """The first scale is beyond what fp16 bears, so the first steps are skipped."""
    config = TrainConfig.of(
        "tiny",
        layers=1,
        precision="fp16",
        loss_scale=2.0**22,
        lr_schedule="linear",
        warmup=3,
        steps=14,
    )
    (applied, seen), *_ = launch(rates_of_a_run, 1, config, threads=1)
    skipped = applied.index(True)
    assert 2 <= skipped <= 12
    done = [rate for rate, ok in zip(seen, applied, strict=True) if ok]
    assert done == [learning_rate(config, update) for update in range(len(done))]
