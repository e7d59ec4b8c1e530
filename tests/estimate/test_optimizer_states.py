"""Bytes of optimizer states by kind, of one process: measured on torch's own and ours (of layouts:
tests/optimizers). About 5 s."""

from __future__ import annotations

import pytest
import torch

from lab_utils import TrainConfig, estimate
from lab_utils.estimate.hardware.table import cluster
from lab_utils.estimate.memory import model_state_bytes
from lab_utils.estimate.update import states_of_whole
from lab_utils.layout.parameters import parameter_count, parameter_shapes
from lab_utils.measure.memory import storage_bytes
from lab_utils.model import GPT
from lab_utils.optimizers.adam8bit import Adam8bit
from lab_utils.optimizers.lion import Lion

LLAMA = dict(hidden=96, heads=6, tied=True, bias=False, norm="rmsnorm", activation="swiglu")
MODELS = [TrainConfig.of("tiny", layers=2).model, TrainConfig.of("tiny", layers=1, **LLAMA).model]
MADE = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
    "lion": Lion,
    "adam8bit": Adam8bit,
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
    assert states_of_whole(kind, parameter_shapes(model)) == held
    config = TrainConfig(model=model, optimizer=kind, global_batch=1)
    assert (
        model_state_bytes(config)["optimizer"]
        == estimate(config).ranks[0].memory["optimizer"]
        == held
    )


def test_by_the_rules_of_the_papers():
    def of(kind, *shape):
        return states_of_whole(kind, {"blocks.0.mlp.up.weight": shape})

    assert of("lion", 128, 64) == of("muon", 128, 64) == 4 * 128 * 64
    assert of("adafactor", 128, 64) == 4 * (128 + 64) + 4
    assert of("adam8bit", 128, 64) == 2 * 128 * 64 + 2 * 4 * 128 * 64 // 256
    assert of("adam8bit", 64, 32) == 8 * 64 * 32
    assert of("adam8bit", 4097) == 2 * (4097 + 4 * 17)
    # embeddings, head, norms and biases are AdamW's
    others = ("token_embedding.weight", "head.weight", "final_norm.weight", "blocks.0.mlp.up.bias")
    assert all(states_of_whole("muon", {name: (64,)}) == 8 * 64 + 4 for name in others)


def test_what_a_step_holds_by_optimizer():
    """Of a Llama of 8 billion parameters in fp32: two moments, one, and hardly any."""
    kinds = ("sgd", "adamw", "adafactor", "lion", "adam8bit", "muon")
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
        "muon": 4.52,
    }


def test_adafactor_keeps_its_factors_on_every_rank_that_holds_a_part():
    """So ZeRO saves it little: there was little to save."""
    config = TrainConfig.of("tiny", optimizer="adafactor", dp=2)
    whole, *cut = (
        model_state_bytes(config.replace(zero=zero), data_rank=rank)["optimizer"]
        for zero, rank in ((0, 0), (1, 0), (1, 1))
    )
    assert whole / 2 < max(cut) < sum(cut) < 1.5 * whole
    assert whole < 0.05 * 4 * parameter_count(config.model)


def test_master_weights_come_on_top():
    config = TrainConfig.of("tiny", optimizer="lion")
    plain, masters = (
        model_state_bytes(config.replace(precision=precision))["optimizer"]
        for precision in ("fp32", "bf16-pure")
    )
    assert masters - plain == 4 * parameter_count(config.model)


def test_what_muon_adds_to_a_step():
    """Of Llama 3 8B on 64 H100s: its products are shared out by ZeRO and done N times without; its
    exchanges are of what a rank holds."""
    h100s = cluster("H100-SXM")
    base = TrainConfig.of(
        "llama3-8b",
        dp=64,
        zero=1,
        global_batch=512,
        micro_batch=1,
        precision="bf16",
        recompute="full",
    )
    adamw, muon = (
        estimate(base.replace(optimizer=kind), h100s).ranks[0] for kind in ("adamw", "muon")
    )
    added = muon.time["step"] - adamw.time["step"]
    assert 0.005 < added < 0.1 * adamw.time["step"]
    sent = muon.total("bytes", purpose="update")
    # twice a 64th of the matrices' fp32 numbers, there and back
    assert sent == pytest.approx(2 * 4 * parameter_count(base.model) * 0.87 / 64, rel=0.1)
    flops = [
        estimate(base.replace(optimizer="muon", zero=z), h100s).flops["update"] for z in (0, 1)
    ]
    assert flops[0] == 64 * flops[1]
