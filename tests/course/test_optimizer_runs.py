"""What lesson 12 rests on: its recording is of this engine, and its instruments measure what they
say."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
import torch

from lab_utils.config import TrainConfig
from lab_utils.config.lr_schedule import learning_rate
from lab_utils.course.optimizers import recorded
from lab_utils.course.optimizers.orthogonal import (
    cosine,
    in_parts,
    on_a_singular_value,
    singular_values,
    two_stages,
)
from lab_utils.course.optimizers.small_states import factored, in_blocks, next_step, with_one_scale
from lab_utils.course.optimizers.states import Moments, adam_moments, momenta
from lab_utils.course.optimizers.trial import UNSEEN, trial
from lab_utils.data.loader import Loader
from lab_utils.data.windows import open_windows
from lab_utils.layout.optimizer_runs import is_hidden_matrix
from lab_utils.model import GPT
from lab_utils.optimizers.muon import orthogonalise
from lab_utils.train import train
from lab_utils.widgets.optimizers import recorded as kept

SMALL = TrainConfig.of(**kept.BASE | dict(steps=6))


# -- the recording ---------------------------------------------------------------------------------


def test_the_recording_holds_every_case_and_no_other():
    expected = dict([*recorded.cases(), *recorded.fresh_cases()])
    rows = kept.kept()["rows"]
    assert {row: one["case"] for row, one in rows.items()} == expected
    for row, one in rows.items():
        seeds = kept.FRESH if row.startswith("fresh") else kept.SEEDS
        assert tuple(run["seed"] for run in one["runs"]) == seeds, row
    assert kept.kept()["about"].keys() == {"torch", "date", "minutes"}
    assert kept.kept()["about"]["minutes"] <= 12
    assert kept.FILE.stat().st_size <= 150_000


def test_every_optimizer_has_as_many_rates_as_far_apart():
    assert {len(rates) for rates in kept.RATES.values()} == {5}
    for rates in kept.RATES.values():
        for low, high in zip(rates, rates[1:], strict=False):
            assert high / low == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("name", kept.RATES)
def test_no_grid_is_cut_off_at_its_best(name):
    assert kept.best_rate(name) in kept.RATES[name][1:-1]


@pytest.mark.parametrize("name", kept.RATES)
def test_the_recording_begins_as_a_run_of_today(name):
    """The warm-up and a little more, with the schedule of the whole run."""
    row = kept.race(name, kept.best_rate(name))
    case = kept.kept()["rows"][row]["case"]
    one = kept.runs(row)[1]
    losses = trial(TrainConfig.of(**case, seed=one["seed"]), until=2 * kept.BIN).loss
    assert recorded.binned(losses) == pytest.approx(one["loss"][:2], rel=1e-2)


@pytest.mark.parametrize("row", ["race muon 0.025", "decay repeated 1.0", "decay adam 0.1"])
def test_a_whole_run_ends_where_the_recorded_one_did(row):
    one = kept.runs(row)[2]
    ends, _, _ = recorded.run(kept.kept()["rows"][row]["case"], one["seed"])
    assert ends["unseen"] == pytest.approx(one["unseen"], abs=0.1)
    assert ends["size"] == pytest.approx(one["size"], rel=0.05)


def test_what_is_no_number_stays_visible():
    assert recorded.number(math.nan) is None
    assert recorded.binned([1.0] * 9 + [None] + [2.0] * 10) == [None, 2.0]
    kept_rows = kept.kept()["rows"]
    for name in kept.RATES:
        assert None not in kept.best(name), "a rate that fails in one seed is never the best"
    assert any(run["unseen"] is None for one in kept_rows.values() for run in one["runs"])


# -- what lesson 12 says of it ---------------------------------------------------------------------


def test_the_rate_weighs_as_much_as_the_name():
    mean = {name: fmean(kept.best(name)) for name in kept.RATES}
    tried = [kept.unseen(kept.race("adamw", rate)) for rate in kept.RATES["adamw"]]
    assert max(map(fmean, tried)) - mean["adamw"] == pytest.approx(0.55, abs=0.005)
    assert mean["sgd"] - mean["adamw"] == pytest.approx(0.28, abs=0.005)
    assert mean["adamw"] - mean["muon"] == pytest.approx(0.39, abs=0.005)


def test_muon_leads_by_little_at_the_rate_nearest_to_adamws():
    near = min(kept.RATES["muon"], key=lambda rate: abs(rate - kept.best_rate("adamw")))
    assert near == 0.004
    pairs = zip(kept.best("adamw"), kept.unseen(kept.race("muon", near)), strict=True)
    assert [a - b for a, b in pairs] == pytest.approx([0.06] * 3, abs=0.005)
    assert 8 <= kept.best_rate("muon") / kept.best_rate("adamw") < 9


@pytest.mark.parametrize("seed", kept.SEEDS)
def test_nine_in_ten_gradients_are_smaller_than_what_l2_adds(seed):
    job = kept.BASE | dict(steps=50, warmup=0, lr_schedule="constant", seed=seed)
    moments = adam_moments(TrainConfig.of(**job)).values()
    squares = torch.cat([m.second.flatten() for m in moments]) / (1 - 0.95**50)
    size = fmean(run["size"] for run in kept.runs(kept.race("adamw", kept.best_rate("adamw"))))
    assert (squares.sqrt() < 0.1 * size).float().mean().item() > 0.9


# -- the trial -------------------------------------------------------------------------------------


def test_a_trial_trains_as_the_engine_does():
    assert trial(SMALL).loss == pytest.approx(train(SMALL).loss, rel=1e-6)


def test_held_out_sequences_are_met_by_no_step():
    first, many = UNSEEN
    windows = open_windows(SMALL)
    batch, steps = SMALL.global_batch, kept.BASE["steps"]
    assert steps <= first
    assert (first + many) * batch <= windows.count, "all of it within one epoch, so nothing twice"
    seen = {windows[i].tobytes() for i in range(steps * batch)}
    unseen = {windows[i].tobytes() for i in range(first * batch, (first + many) * batch)}
    # blank lines and such do repeat in any text
    assert len(unseen & seen) <= len(unseen) // 100


def test_the_held_out_loss_is_the_models():
    still = SMALL.replace(steps=1, lr=1e-12)
    model, loader = GPT(still.model, still.seed), Loader(still)
    first, many = UNSEEN
    with torch.no_grad():
        batches = [loader.batch(first + i).micro_batches[0] for i in range(many)]
        pairs = [model(micro.tokens, micro.targets) for micro in batches]
    expected = sum(loss.item() for loss, _ in pairs) / sum(int(count) for _, count in pairs)
    assert trial(still).unseen == pytest.approx(expected, rel=1e-5)


def test_batches_that_come_round_are_learned_by_heart():
    again, once = trial(SMALL.replace(steps=40), repeat=1), trial(SMALL.replace(steps=40))
    assert again.loss[-1] < once.loss[-1] - 0.3
    assert again.unseen > once.unseen


# -- what is taken apart ---------------------------------------------------------------------------


def test_moments_are_those_of_torchs_adamw():
    found = adam_moments(SMALL)
    model, loader = GPT(SMALL.model, SMALL.seed), Loader(SMALL)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=SMALL.lr, betas=(0.9, 0.95), weight_decay=0
    )
    for step in range(SMALL.steps):
        micro = loader.batch(step).micro_batches[0]
        loss, count = model(micro.tokens, micro.targets)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.param_groups[0]["lr"] = learning_rate(SMALL, step)
        optimizer.step()
    assert found.keys() == dict(model.named_parameters()).keys()
    for name in ("token_embedding.weight", "blocks.1.mlp.down.weight"):
        state = optimizer.state[model.get_parameter(name)]
        assert torch.allclose(found[name].first, state["exp_avg"], rtol=1e-3, atol=1e-7), name
        assert torch.allclose(found[name].second, state["exp_avg_sq"], rtol=1e-3, atol=1e-9), name


def test_momenta_are_of_every_hidden_matrix_in_its_shape():
    found = momenta(SMALL)
    model = GPT(SMALL.model)
    expected = {n: p.shape for n, p in model.named_parameters() if is_hidden_matrix(n)}
    assert {name: matrix.shape for name, matrix in found.items()} == expected


def test_the_next_step_is_adams():
    draw = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.zeros(4, 6))
    optimizer = torch.optim.Adam([weight], lr=1.0, betas=(0.9, 0.95))
    for _ in range(5):
        weight.grad = torch.randn(4, 6, generator=draw)
        optimizer.step()
    state = optimizer.state[weight]
    moments = Moments(state["exp_avg"].clone(), state["exp_avg_sq"].clone(), torch.ones(4, 6))
    before = weight.detach().clone()
    weight.grad = torch.ones(4, 6)
    optimizer.step()
    assert torch.allclose(before - weight.detach(), next_step(moments, 5), rtol=1e-4)


def test_factors_are_exact_where_rows_are_alike():
    alike = torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 4.0, 9.0]))
    assert torch.allclose(factored(alike), alike)


def test_one_scale_loses_what_blocks_keep():
    numbers = torch.full((2, 256), 1e-9)
    numbers[0, 0] = 1.0
    assert torch.allclose(in_blocks(numbers, False)[1], numbers[1], rtol=0.02)
    assert (with_one_scale(numbers, False)[1] == 0).all()
    assert torch.equal(with_one_scale(numbers[:, :1], False), in_blocks(numbers[:, :1], False))


def test_steps_act_on_every_singular_value_by_itself():
    draw = torch.Generator().manual_seed(1)
    for shape in ((24, 24), (24, 40), (40, 24)):
        matrix = torch.randn(shape, generator=draw, dtype=torch.float64)
        before = singular_values(matrix) / matrix.norm()
        for after, two_stage in ((orthogonalise(matrix), False), (two_stages(matrix), True)):
            expected = on_a_singular_value(before, two_stage).sort(descending=True).values
            assert torch.allclose(singular_values(after), expected, atol=1e-9)


def test_ten_steps_end_at_one_and_parts_are_not_the_whole():
    matrix = torch.randn(32, 64, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    values = singular_values(two_stages(matrix))
    assert values.min() > 0.9999
    assert values.max() < 1.001
    assert cosine(in_parts(matrix, 1), orthogonalise(matrix)) == pytest.approx(1)
    assert cosine(in_parts(matrix, 4), orthogonalise(matrix)) < 0.97
