"""Bytes of optimizer states by kind: torch's own measured, the others by their papers' rules. About
5 s."""

from __future__ import annotations

import pytest
import torch

from lab_utils import TrainConfig, estimate
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.memory.optimizers import optimizer_state_bytes
from lab_utils.layout.parameters import parameter_count, parameter_shapes
from lab_utils.measure.memory import storage_bytes
from lab_utils.model import GPT

LLAMA = dict(hidden=96, heads=6, tied=True, bias=False, norm="rmsnorm", activation="swiglu")
MODELS = [TrainConfig.of("tiny", layers=2).model, TrainConfig.of("tiny", layers=1, **LLAMA).model]
MADE = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("model", MODELS, ids=("gpt", "llama"))
def test_torchs_optimizers_hold_what_is_estimated(kind, model):
    net = GPT(model)
    optimizer = MADE[kind](list(net.parameters()))
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = storage_bytes(
        x
        for state in optimizer.state.values()
        for x in state.values()
        if isinstance(x, torch.Tensor)
    )
    assert (
        optimizer_state_bytes(kind, ((shape, 1) for shape in parameter_shapes(model).values()))
        == held
    )
    config = TrainConfig(model=model, optimizer=kind, global_batch=1)
    assert (
        model_state_bytes(config)["optimizer"]
        == estimate(config).ranks[0].memory["optimizer"]
        == held
    )


def test_by_the_rules_of_the_papers():
    matrix, small = (128, 64), (64, 32)
    assert optimizer_state_bytes("lion", [(matrix, 1)]) == 4 * 128 * 64
    assert optimizer_state_bytes("adafactor", [(matrix, 1)]) == 4 * (128 + 64) + 4
    assert (
        optimizer_state_bytes("adam8bit", [(matrix, 1)]) == 2 * 128 * 64 + 2 * 4 * 128 * 64 // 256
    )
    assert optimizer_state_bytes("adam8bit", [(small, 1)]) == 8 * 64 * 32
    assert optimizer_state_bytes("adam8bit", [((4097,), 3)]) == 3 * 2 * (4097 + 4 * 17)


def test_what_a_step_holds_by_optimizer():
    """Of a Llama of 8 billion parameters in fp32: two moments, one, and hardly any."""
    kinds = ("sgd", "adamw", "adafactor", "lion", "adam8bit")
    states = {
        kind: model_state_bytes(TrainConfig.of("llama3-8b", optimizer=kind, global_batch=1))[
            "optimizer"
        ]
        for kind in kinds
    }
    count = parameter_count(TrainConfig.of("llama3-8b").model)
    assert {kind: round(nbytes / count, 2) for kind, nbytes in states.items()} == {
        "sgd": 4.0,
        "adamw": 8.0,
        "adafactor": 0.0,
        "lion": 4.0,
        "adam8bit": 2.03,
    }


def test_a_shard_is_a_vector_so_adafactor_has_nothing_to_factor():
    config = TrainConfig.of("tiny", optimizer="adafactor", dp=2)
    whole, cut = (model_state_bytes(config.replace(zero=zero))["optimizer"] for zero in (0, 1))
    assert whole < cut == pytest.approx(4 * parameter_count(config.model) / 2, rel=0.01)


def test_master_weights_come_on_top():
    config = TrainConfig.of("tiny", optimizer="lion")
    plain, masters = (
        model_state_bytes(config.replace(precision=precision))["optimizer"]
        for precision in ("fp32", "bf16-pure")
    )
    assert masters - plain == 4 * parameter_count(config.model)
