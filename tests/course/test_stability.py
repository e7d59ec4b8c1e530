"""What lesson 11 rests on: the remedies do what they say, and its recording is of this engine."""

import math

import pytest
import torch

from lab_utils.config import TrainConfig
from lab_utils.course.stability import recorded
from lab_utils.course.stability.coordinates import BASE, RULES, mup_groups, shape, slope, without
from lab_utils.course.stability.signal import place_norms, rms, signal
from lab_utils.course.stability.trial import Z_WEIGHT, QKNorm, Watched, trial, with_z_loss
from lab_utils.data.loader import Loader
from lab_utils.model import GPT, AttentionCore, loss_sum_and_count
from lab_utils.train import train

SMALL = TrainConfig.of("tiny", layers=2, seq=16, global_batch=4, steps=3)


def test_the_recording_holds_every_case_and_no_other():
    expected = {}
    for row, case in recorded.cases():
        expected.setdefault(row, []).append(case)
    kept = recorded.kept()["runs"]
    assert {row: [one["case"] for one in runs] for row, runs in kept.items()} == expected
    assert recorded.kept()["about"].keys() == {"torch", "date", "minutes"}
    assert recorded.kept()["about"]["minutes"] <= 15


@pytest.mark.parametrize("row", ["cure sgd qk_norm", "cure logits z_loss", "clip adamw 1.0"])
def test_the_recording_begins_as_a_run_of_today(row):
    torch.set_num_threads(1)
    one = recorded.kept()["runs"][row][1]
    now = recorded.run(one["case"] | dict(steps=6))
    for name in ("loss", "norm", "logit", "log_z"):
        assert now[name][:5] == pytest.approx(one[name][:5], rel=2e-2), name


@pytest.mark.parametrize("row", ["width mup 32 0.004", "width gpt2 32 0.001"])
def test_a_whole_run_ends_where_the_recorded_one_did(row):
    torch.set_num_threads(1)
    one = recorded.kept()["runs"][row][0]
    assert recorded.final(recorded.run(one["case"])["loss"]) == pytest.approx(one["final"], abs=0.1)


def test_finals_are_means_of_the_last_fifth_and_nan_stays_visible():
    assert recorded.final([9.0] * 8 + [2.0, 4.0]) == 3.0
    assert recorded.final([1.0] * 9 + [None]) is None
    assert recorded.final([None] + [1.0] * 9) is None
    assert recorded._kept(math.nan) is None
    for illness in recorded.ILLNESSES:
        for remedy in recorded.REMEDIES:
            row = f"cure {illness} {remedy}"
            for end, losses in zip(recorded.finals(row), recorded.series(row, "loss"), strict=True):
                assert end == recorded.final(losses)


def test_qk_norm_bounds_every_logit():
    watched = Watched(AttentionCore(SMALL.model))
    q, k, v = (100 * torch.randn(2, 4, 16, 16) for _ in range(3))
    QKNorm(watched)(q, k, v)
    assert 0 < watched.largest <= 4 + 1e-5  # the root of 16
    plain = AttentionCore(SMALL.model)
    assert torch.equal(watched(q, k, v), plain(q, k, v))


def test_z_loss_adds_the_square_of_log_z():
    logits, targets = torch.randn(3, 5, 7), torch.randint(7, (3, 5))
    (plain, count), (more, same) = (f(logits, targets) for f in (loss_sum_and_count, with_z_loss))
    assert (more - plain).item() == pytest.approx(
        Z_WEIGHT * logits.exp().sum(-1).log().square().sum().item(), rel=1e-3
    )
    assert count == same


def test_a_trial_trains_as_the_engine_does():
    """For two steps: from the third on the engine's SGD has momentum, the trial's has none."""
    config = SMALL.replace(optimizer="sgd", lr=0.1, clip=1.0, steps=2)
    assert trial(config).loss == pytest.approx(train(config).loss, rel=1e-5)


def test_warm_up_and_clip_by_value_act():
    plain, slow = trial(SMALL), trial(SMALL, warmup=100)
    assert slow.loss[0] == plain.loss[0]
    assert slow.loss[1] > plain.loss[1]
    sgd = SMALL.replace(optimizer="sgd", lr=1.0)
    assert trial(sgd, clip_value=1e-9).loss[1] == pytest.approx(
        untrained_loss(sgd, 1), rel=1e-5
    )  # nothing moved


def untrained_loss(config, step):
    micro = Loader(config).batch(step).micro_batches[0]
    loss, count = GPT(config.model, config.seed)(micro.tokens, micro.targets)
    return (loss / count).item()


def test_signal_sees_the_stream_that_the_model_computes():
    found = signal(SMALL)
    model, micro = GPT(SMALL.model), Loader(SMALL).batch(0).micro_batches[0]
    assert len(found.stream) == len(found.gradient) == 3
    assert found.stream[0] == pytest.approx(rms(model.embed(micro.tokens)))
    assert found.logits == pytest.approx(rms(model(micro.tokens)))
    assert signal(SMALL, "post").stream[1:] == pytest.approx([1.0, 1.0], rel=1e-2)


def test_norms_are_where_they_are_said_to_be():
    x = torch.randn(2, 16, 64)
    block = GPT(SMALL.model).blocks[0]
    bare = place_norms(GPT(SMALL.model), "none").blocks[0]
    y = x + block.attention(x)
    assert torch.allclose(bare(x), y + block.mlp(y))
    post = place_norms(GPT(SMALL.model), "post").blocks[0]
    y = block.attention_norm(x + block.attention(x))
    assert torch.allclose(post(x), block.mlp_norm(y + block.mlp(y)))


def test_mup_rules_agree_at_the_base_and_part_with_the_width():
    for rules in ((), RULES):
        model = GPT(shape(BASE).model, init="mup")
        assert all(group["lr"] == 1.0 for group in mup_groups(model, 1.0, rules))
    wide = GPT(shape(4 * BASE).model, init="mup")
    assert [group["lr"] for group in mup_groups(wide, 1.0)] == [0.25, 0.25, 1.0]
    every = [p for group in mup_groups(wide, 1.0) for p in group["params"]]
    assert len(every) == len(list(wide.parameters()))
    up, head = (
        wide.get_parameter(n).std().item() for n in ("blocks.0.mlp.up.weight", "head.weight")
    )
    without(wide, ())
    assert wide.get_parameter("blocks.0.mlp.up.weight").std().item() == pytest.approx(2 * up)
    assert wide.get_parameter("head.weight").std().item() == pytest.approx(4 * head)


def test_slope_is_the_exponent():
    assert slope((1, 2, 4), (3.0, 3 * 2**1.5, 3 * 4**1.5)) == pytest.approx(1.5)
