"""A small GPT with a policy of recomputation, one training step of it, and what it means that two
steps are the same."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lab_utils import TrainConfig
from lab_utils.model import GPT
from lab_utils.parallel.recompute import checkpoint, recompute, torch_checkpoint

LAYERS, BATCH, SEQ, HIDDEN = 4, 2, 16, 32
SHAPES = {
    "gelu": {},
    "swiglu": {
        "norm": "rmsnorm",
        "activation": "swiglu",
        "positions": "rope",
        "kv_heads": 2,
        "bias": False,
    },
}
POLICIES = ["none", "selective", "full", "0,2"]
BY = [checkpoint, torch_checkpoint]
RESIDUAL = 4 * BATCH * SEQ * HIDDEN  # bytes of one block's input
bf16 = partial(torch.autocast, "cpu", torch.bfloat16)


class Step(NamedTuple):
    """What a training step leaves behind."""

    loss: Tensor
    gradients: dict[str, Tensor]
    generator: Tensor


def gpt(**shape) -> GPT:
    return GPT(
        TrainConfig.of(
            "tiny", layers=LAYERS, hidden=HIDDEN, heads=4, vocab=64, seq=SEQ, **shape
        ).model
    )


def tokens() -> Tensor:
    return torch.randint(64, (BATCH, SEQ), generator=torch.Generator().manual_seed(1))


def step(model: GPT, forward=nullcontext, backward=nullcontext, seed: int = 7) -> Step:
    torch.manual_seed(seed)
    with forward():
        loss, _ = model(tokens(), tokens())
    with backward():
        loss.backward()
    return Step(
        loss.detach(), {name: p.grad for name, p in model.named_parameters()}, torch.get_rng_state()
    )


def check_same(step: Step, reference: Step) -> None:
    assert torch.equal(step.loss, reference.loss), "losses differ"
    assert step.gradients.keys() == reference.gradients.keys(), "names differ"
    for name, gradient in reference.gradients.items():
        assert gradient.count_nonzero(), name
        assert torch.equal(step.gradients[name], gradient), f"gradients of {name} differ"
    assert torch.equal(step.generator, reference.generator), "random numbers go on differently"


class LeakyCore(nn.Module):
    """An attention core followed by dropout."""

    def __init__(self, core: nn.Module) -> None:
        super().__init__()
        self.core, self.dropout = core, nn.Dropout(0.3)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return self.dropout(self.core(q, k, v))


def with_dropout(policy: str, by=checkpoint) -> GPT:
    model = gpt()
    for block in model.blocks:
        block.attention.core = LeakyCore(block.attention.core)
        block.mlp = nn.Sequential(block.mlp, nn.Dropout(0.3))
    recompute(model, policy, by)
    return model


def count_calls(model: nn.Module, names: list[str]) -> dict[str, int]:
    """Calls of `forward` of these modules, patched before any policy is."""
    calls = dict.fromkeys(names, 0)

    def counted(name: str, forward, *inputs):
        calls[name] += 1
        return forward(*inputs)

    for name in names:
        module = model.get_submodule(name)
        module.forward = partial(counted, name, module.forward)
    return calls
