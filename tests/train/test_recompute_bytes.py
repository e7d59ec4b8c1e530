"""How often each part runs under a policy, and what is kept between."""

from __future__ import annotations

import weakref

import pytest
import torch
from recomputation import (
    BATCH,
    HIDDEN,
    LAYERS,
    RESIDUAL,
    SEQ,
    SHAPES,
    check_same,
    count_calls,
    gpt,
    step,
    tokens,
)
from torch import Tensor, nn

from lab_utils.measure.memory import SavedActivations
from lab_utils.parallel.recompute import checkpoint, recompute


@pytest.mark.parametrize(
    ("policies", "block", "core"),
    [
        (["none"], [1, 1], [1, 1]),
        (["selective"], [1, 1], [2, 2]),
        (["full"], [2, 2], [2, 2]),
        (["1"], [1, 2], [1, 2]),
        # once more inside the block's second run, which again keeps only q, k, v
        (["selective", "full"], [2, 2], [3, 3]),
    ],
)
def test_how_often_each_part_runs(policies, block, core):
    model, plain = gpt(), gpt()
    names = [f"blocks.{i}{part}" for part in ("", ".attention.core") for i in (0, 1)] + [
        "final_norm"
    ]
    calls = count_calls(model, names)
    for policy in policies:
        recompute(model, policy)
    check_same(step(model), step(plain))
    assert list(calls.values()) == [*block, *core, 1]


def saved_bytes(run, model: nn.Module) -> tuple[int, int]:
    """Bytes saved when the forward pass is over, and the most at one moment of forward and
    backward."""
    meter = SavedActivations(model)
    with meter:
        result = run()
        after_forward = meter.now
        (result[0] if isinstance(result, tuple) else result).sum().backward()
    del result
    assert meter.now == 0
    return after_forward, meter.peak


def test_what_the_second_run_returns_is_gone_before_the_backward_through_it():
    output, alive = [], []

    def shifted(x: Tensor) -> Tensor:
        y = x * 2
        z = y + 1
        if y.requires_grad:
            output.append(weakref.ref(z.untyped_storage()))
            y.register_hook(lambda gradient: alive.append(output[0]() is not None))
        return z

    checkpoint(shifted, torch.ones(5, requires_grad=True)).sum().backward()
    assert alive == [False]


def model_bytes(*policies: str, layers: int = LAYERS, **shape) -> tuple[int, int]:
    model = gpt(**shape)
    model.blocks = model.blocks[:layers]
    for policy in policies:
        recompute(model, policy)
    return saved_bytes(lambda: model(tokens(), tokens()), model)


@pytest.mark.parametrize("attention", ["sdpa", "explicit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_full_keeps_the_blocks_inputs_and_at_its_peak_one_block_besides(shape, attention):
    shape = SHAPES[shape] | {"attention": attention}
    outside, _ = model_bytes("full", layers=0, **shape)
    after_forward, peak = model_bytes("full", **shape)
    assert after_forward == outside + LAYERS * RESIDUAL
    model, x = gpt(**shape), torch.randn(BATCH, SEQ, HIDDEN, requires_grad=True)
    one_block, _ = saved_bytes(lambda: model.blocks[0](x), model)
    embedding, _ = saved_bytes(lambda: model.embed(tokens()), model)
    assert peak == max(after_forward, embedding + (LAYERS - 1) * RESIDUAL + one_block)
    everything, _ = model_bytes("none", **shape)
    assert everything == outside + LAYERS * one_block
    assert model_bytes("0,2", **shape)[0] == (everything + after_forward) / 2


def test_selective_keeps_no_scores_and_inside_full_lowers_the_peak():
    none, selective, full, both = (
        model_bytes(*policies, attention="explicit")
        for policies in (["none"], ["selective"], ["full"], ["selective", "full"])
    )
    # softmax: 4 heads, 4 bytes
    assert none[0] - selective[0] >= LAYERS * 4 * BATCH * 4 * SEQ * SEQ
    assert both[0] == full[0]
    assert both[1] < full[1]
