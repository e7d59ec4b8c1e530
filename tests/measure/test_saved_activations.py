"""Bytes saved for backward, against a second count made another way, and model states against the
estimate."""

from __future__ import annotations

import random

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from lab_utils import TrainConfig, estimate, train
from lab_utils.data.loader import Loader
from lab_utils.engines.optimizer import make_optimizer
from lab_utils.engines.step import train_step
from lab_utils.measure.memory import SavedActivations, held_bytes, storage_bytes
from lab_utils.model import GPT
from lab_utils.parallel.comm import Axis
from lab_utils.parallel.gradient_sync import GradientSync
from lab_utils.parallel.ledger import Ledger

VARIANTS = [
    {},
    {"attention": "explicit"},
    {"positions": "rope", "kv_heads": 2, "attention": "explicit"},
    {"positions": "rope", "kv_heads": 1},
    {"norm": "rmsnorm", "activation": "swiglu", "bias": False},
    {"tied": True},
    {"seq": 1},
    {"layers": 1, "micro_batch": 1},
]


def counted_another_way(model: GPT, tokens: torch.Tensor, targets: torch.Tensor) -> int:
    """Everything that autograd asks to keep in one forward pass is kept alive; distinct addresses
    are then added up."""
    kept = []
    with saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        loss, _ = model(tokens, targets)
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage().nbytes() for x in kept}
    assert loss.requires_grad
    return sum(size for address, size in storages.items() if address not in weights)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_peak_is_what_one_forward_pass_saves_and_all_of_it_is_let_go(variant):
    config = TrainConfig.of("tiny", **{"layers": 2, "global_batch": 4} | variant)
    model, micro = GPT(config.model), Loader(config).batch(0).micro_batches[0]
    meter = SavedActivations(model)
    with meter:
        loss, _ = model(*micro)
        held = meter.now
        loss.backward()
    del loss
    assert meter.peak == held == counted_another_way(model, *micro)
    assert meter.now == 0
    # one residual stream at the very least
    assert meter.peak > 4 * micro.tokens.numel() * config.model.hidden


def one_rank(model: GPT) -> GradientSync:
    return GradientSync(model, Axis("dp", [0], 0, None, Ledger()))


def peak_of_a_step(config: TrainConfig) -> int:
    model = GPT(config.model)
    meter = SavedActivations(model)
    with meter:
        train_step(
            one_rank(model), make_optimizer(model.parameters(), config), Loader(config).batch(0)
        )
    assert meter.now == 0
    return meter.peak


def test_accumulation_saves_no_more_than_one_micro_batch():
    config = TrainConfig.of("tiny", layers=2, global_batch=12)
    whole, accumulated, alone = (
        peak_of_a_step(config.replace(**c)) for c in ({}, {"micro_batch": 4}, {"global_batch": 4})
    )
    # all but the tokens and targets, which the loader holds in any case, is that of a micro-batch
    # alone
    assert accumulated == alone
    assert 2.9 < whole / accumulated <= 3


def test_a_storage_counts_once_however_many_share_it_and_a_slice_as_a_whole():
    base = torch.zeros(100)
    assert (
        storage_bytes([base, base[:10], base.view(10, 10), torch.zeros(3, dtype=torch.float64)])
        == 400 + 24
    )
    seen = set()
    assert (storage_bytes([base], seen), storage_bytes([base[5:]], seen)) == (400, 0)


def test_gradients_that_live_in_buckets_are_not_counted_twice():
    model = torch.nn.Linear(3, 2)
    bucket, spare = torch.zeros(10), torch.zeros(5)
    model.weight.grad, model.bias.grad = bucket[:6].view(2, 3), bucket[6:8]
    gradients = [p.grad for p in model.parameters()]
    states = held_bytes(
        {
            "parameters": list(model.parameters()),
            "gradients": gradients,
            "optimizer": [],
            "buckets": [bucket, spare],
            "hidden": None,
        }
    )
    assert states.pop("hidden", "absent") is None
    assert states == {"parameters": 32, "gradients": 40, "optimizer": 0, "buckets": 20}


@pytest.mark.parametrize("dp", [1, 2, 4])
def test_model_states_are_estimated_exactly(dp):
    rng = random.Random(dp)
    for optimizer in ("adamw", "sgd"):
        config = TrainConfig.of(
            "tiny",
            layers=rng.randint(1, 3),
            tied=rng.random() < 0.5,
            bias=rng.random() < 0.5,
            dp=dp,
            steps=2,
            optimizer=optimizer,
            bucket_mib=rng.choice([0.01, 1.0]),
            gradient_sync=rng.choice(["bucketed", "naive"]),
        )
        predicted = estimate(config).ranks
        for rank, expected in zip(train(config, threads=1).ranks, predicted, strict=True):
            for term in ("parameters", "gradients", "optimizer", "buckets"):
                assert rank.memory[term] == expected.memory[term], (optimizer, term)
            if expected.memory["activations"] is not None:
                assert rank.memory["activations"] == expected.memory["activations"]
            assert rank.traffic == expected.traffic


def test_gathered_weights_are_no_activations():
    """ZeRO changes what is held of weights, gradients and states, and nothing of what is saved for
    backward."""
    config = TrainConfig.of("tiny", layers=3, dp=2, steps=2, global_batch=8, micro_batch=2)
    reports = [train(config.replace(zero=zero), threads=1) for zero in range(4)]
    assert len({rank.memory["activations"] for report in reports for rank in report.ranks}) == 1
    assert reports[3].ranks[0].memory["gathered"] > reports[3].ranks[0].memory["parameters"] / 2
