"""What lesson 13 rests on: its runs are the engine's, its faults are torch's, its recording is of
today."""

import math
import warnings
from functools import partial
from statistics import median

import pytest
import torch
from torch import nn

from lab_utils import launch
from lab_utils.config import TrainConfig
from lab_utils.config.lr_schedule import learning_rate
from lab_utils.course.schedules import recorded
from lab_utils.course.schedules.faults import cosine, faulty, rates, warmup_linear
from lab_utils.course.schedules.finder import torch_lr_finder
from lab_utils.course.schedules.first_steps import first_steps
from lab_utils.course.schedules.noise import Noise, Norms, noise, norms_of, norms_on_rank
from lab_utils.train import train
from lab_utils.train.lr_finder import find_learning_rate

SMALL = TrainConfig.of(**recorded.BASE, steps=6, warmup=2, lr=0.003)


def here(work, *arguments):
    """What one rank returns."""
    return launch(work, 1, *arguments, threads=1)[0]


def test_the_recording_holds_every_case_and_no_other():
    expected = {}
    for row, case in recorded.cases():
        expected.setdefault(row, []).append(case)
    kept = recorded.kept()["runs"]
    assert {row: [one["case"] for one in runs] for row, runs in kept.items()} == expected
    assert recorded.kept()["about"].keys() == {"torch", "date", "minutes"}
    assert recorded.kept()["about"]["minutes"] <= 60
    assert recorded.FILE.stat().st_size < 150_000


@pytest.mark.parametrize("row", ["cosine 240 0.004", "batch 32 0.008", "fault micro_cosine"])
def test_a_run_of_today_ends_where_the_recorded_one_did(row):
    one = recorded.kept()["runs"][row][1]
    assert here(recorded.measure, one["case"]) == pytest.approx(one["found"], abs=0.03)


def test_the_first_branch_of_today_ends_where_the_recorded_one_did():
    one = recorded.kept()["runs"]["wsd 0.002"][0]
    case = one["case"] | dict(lr_schedule="wsd", steps=240, measure="final")
    assert here(recorded.measure, case) == pytest.approx(one["found"][:1], abs=0.03)


def test_the_noise_of_today_is_the_recorded_one():
    one = recorded.kept()["runs"]["noise"][2]
    (signal, trace) = here(noise_at_the_start, one["case"])
    assert [signal, trace] == pytest.approx(one["found"][0], rel=0.02)


def noise_at_the_start(case):
    from lab_utils.course.schedules.runs import Run

    run = Run(TrainConfig.of(**{k: v for k, v in case.items() if k != "measure"}))
    return tuple(noise([norms_of(run, recorded.NOISE_FEW, recorded.NOISE_TIMES)]))


def test_three_branches_are_cheaper_than_three_runs():
    whole = sum(recorded.HORIZONS)
    assert whole / recorded.HORIZONS[0] == 7
    assert recorded.updates_of_branches() / recorded.HORIZONS[0] == pytest.approx(4.6)


def best(rows, place=-1):
    """A row's values of all seeds at one place, of the row whose median is lowest."""
    columns = [[values[place] for values in recorded.found(row)] for row in rows]
    return min(columns, key=median)


def test_what_the_lesson_says_of_the_recording_holds_seed_by_seed():
    gaps = []
    for i, steps in enumerate(recorded.HORIZONS):
        cosine = best([f"cosine {steps} {lr}" for lr in recorded.HORIZON_RATES])
        branch = best([f"wsd {lr}" for lr in recorded.HORIZON_RATES], i)
        gaps.append([c - b for c, b in zip(cosine, branch, strict=True)])
    for of_seed in zip(*gaps, strict=True):  # no branch is worse, and the gap shrinks
        assert 0 < of_seed[2] < of_seed[1] < of_seed[0]
    short = best([f"cosine 480 {lr}" for lr in recorded.HORIZON_RATES])
    passing = best([f"cosine 960 {lr}" for lr in recorded.HORIZON_RATES], 1)
    assert all(long < own for long, own in zip(passing, short, strict=True))
    right, micro = recorded.finals("fault right"), recorded.finals("fault micro")
    assert all(wrong - good > 1 / 3 for good, wrong in zip(right, micro, strict=True))
    for (signal, trace), *_, (later, noisy) in recorded.found("noise"):
        assert noisy / later > 10 * trace / signal


@pytest.mark.parametrize("kind", ["linear", "cosine", "wsd", "inverse-sqrt"])
def test_a_run_trains_as_the_engine_does(kind):
    config = SMALL.replace(lr_schedule=kind)
    assert here(losses_of_a_run, config) == pytest.approx(train(config).loss, rel=1e-6)


def losses_of_a_run(config):
    from lab_utils.course.schedules.runs import Run

    run = Run(config)
    run.train(config.steps, partial(learning_rate, config))
    return run.losses


def test_a_run_goes_on_from_a_checkpoint_as_if_it_had_not_been_left():
    straight, branched, unseen = here(left_and_taken_up, SMALL)
    assert branched == straight
    assert unseen


def left_and_taken_up(config):
    from lab_utils.course.schedules.runs import _FAR, HELD_OUT, Run

    rate = partial(learning_rate, config)
    straight = Run(config)
    straight.train(6, rate)
    run = Run(config)
    run.train(3, rate)
    there = run.checkpoint()
    run.train(6, lambda _: 0.1)  # a branch that goes wrong
    run.go_back(there)
    run.train(6, rate)
    ends = [(one.losses, one.held_out()) for one in (straight, run)]
    # held-out text is in no batch of the longest run, and in the same epoch
    read = max(c["steps"] * c["global_batch"] for _, c in recorded.cases())
    return *ends, read <= _FAR < straight.loader.windows.count - 2 * HELD_OUT


@pytest.mark.parametrize("kind", ["linear", "cosine_with_warmup"])
def test_what_is_called_usual_is_what_transformers_does(kind):
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    if kind == "linear":
        theirs = get_scheduler("linear", optimizer, num_warmup_steps=5, num_training_steps=40)
        ours = rates(warmup_linear(5, 40), 40)
    else:
        theirs = get_scheduler("cosine", optimizer, num_warmup_steps=0, num_training_steps=40)
        ours = rates(cosine(40), 40)
    found = []
    for _ in range(40):
        found.append(theirs.get_last_lr()[0])
        optimizer.step()
        theirs.step()
    assert ours == pytest.approx(found, abs=1e-9)


def test_each_fault_gives_the_rates_that_arithmetic_says():
    found = faulty(480, 20)
    right = found["right"]
    assert (right[0], right[20]) == (0, 1)
    assert found["micro"] == pytest.approx(
        [right[4 * k + 3] if k < 120 else 0.0 for k in range(480)], abs=1e-9
    )
    assert all(rate == 0 for rate in found["micro"][120:])
    assert found["micro_cosine"] == pytest.approx(
        [(1 + math.cos(math.pi * (4 * k + 3) / 480)) / 2 for k in range(480)], abs=1e-6
    )
    assert found["one_rank"][-1] == pytest.approx((1920 - 479) / 1900)
    assert found["first"][:479] == right[1:]
    assert found["skipped"][:472] == right[8:]


def test_a_scaler_skips_and_the_scheduler_goes_on():
    """torch's own GradScaler, with gradients that overflow in the first three steps."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scheduler, scaler, found = warmup_linear(5, 20)(optimizer), torch.amp.GradScaler("cpu"), []
    optimizer.register_step_pre_hook(lambda *_: found.append(optimizer.param_groups[0]["lr"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(10):
            optimizer.zero_grad()
            scaler.scale((weight * (float("inf") if step < 3 else 0.0)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        modelled = rates(warmup_linear(5, 20), 10, skipped=range(3))
    assert found == pytest.approx(modelled)
    assert found[0] == pytest.approx(3 / 5)


def test_torch_warns_of_a_scheduler_that_steps_first():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rates(warmup_linear(2, 8), 8, scheduler_first=True)
    assert any("before `optimizer.step()`" in str(one.message) for one in said)


def test_noise_is_exact_where_the_norms_are():
    """|G|² = 4 and tr Σ = 30: of 2 sequences 4 + 15, of 10 sequences 4 + 3."""
    assert noise([Norms(19.0, 7.0, 2, 10)]) == pytest.approx(Noise(4.0, 30.0))
    assert noise([Norms(18.0, 7.5, 2, 10), Norms(20.0, 6.5, 2, 10)]).scale == pytest.approx(7.5)
    assert math.isnan(Noise(-1.0, 3.0).scale)


def test_ranks_and_one_process_see_the_same_norms():
    config = SMALL.replace(global_batch=12)
    (alone,) = launch(norms_of_thirds, 1, config, threads=1)
    for of_rank in launch(norms_on_rank, 3, config.replace(dp=3), 1, threads=1):
        assert of_rank[0] == pytest.approx(alone, rel=1e-4)


def norms_of_thirds(config):
    from lab_utils.course.schedules.noise import gradient
    from lab_utils.data.loader import Loader, MicroBatch
    from lab_utils.model import GPT

    whole = Loader(config).batch(0).micro_batches[0]
    model = GPT(config.model, config.seed, config.init)
    parts = zip(whole.tokens.split(4), whole.targets.split(4), strict=True)
    small = [gradient(model, MicroBatch(*part)).square().sum().item() for part in parts]
    return Norms(sum(small) / 3, gradient(model, whole).square().sum().item(), 4, 12)


def test_adams_first_update_moves_each_weight_by_the_rate_or_not_at_all():
    gradient, change = here(first_update, SMALL)
    felt = gradient.abs() > 1e-5  # well above Adam's ε
    assert change[felt].abs().tolist() == pytest.approx([1.0] * int(felt.sum()), abs=2e-3)
    assert not change[gradient == 0].any()
    found = here(first_steps, SMALL.replace(steps=12))
    assert found.moved[0] == pytest.approx(change.square().mean().sqrt().item(), rel=1e-3)
    assert found.moved[-1] < 0.7 * found.moved[0]
    assert found.doubled[0] > 0.3 > found.doubled[-1]


def first_update(config):
    from lab_utils.course.schedules.first_steps import run_gradient
    from lab_utils.course.schedules.runs import Run

    run = Run(config.replace(clip=0.0))
    gradient, weights = run_gradient(run, 0), run.engine.updates.weights
    before = torch.cat([weight.flatten() for weight in weights])
    run.train(1, lambda _: 0.01)
    return gradient, (torch.cat([weight.flatten() for weight in weights]) - before) / 0.01


def test_torch_lr_finder_sees_the_losses_that_ours_sees():
    config = SMALL.replace(clip=0.0, global_batch=4, micro_batch=2)
    ours = find_learning_rate(config, 1e-5, 1e-2, 12)
    theirs = torch_lr_finder(config, 1e-5, 1e-2, 12, accumulation_steps=2).history
    assert theirs["lr"] == pytest.approx(ours.rates)
    assert theirs["loss"] == pytest.approx(ours.losses, rel=1e-4)
    unnamed = torch_lr_finder(config, None, 10.0, 12)
    assert unnamed.history["lr"][0] == pytest.approx(1e-3)
