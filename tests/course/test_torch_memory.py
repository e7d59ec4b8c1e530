"""What lesson 03 measures of torch's own ways to keep less. About 10 s."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from lab_utils.course.memory_tables import kept_by_layer
from lab_utils.course.torch_memory import Counted, Tried, try_way, ways_table

STREAM = 4 * 2 * 128 * 64  # fp32 bytes: 2 sequences of 128 tokens, 64 hidden
LOSS = 4


def plain(block: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return block(x)


@pytest.fixture(scope="module")
def tried() -> dict[str, Tried]:
    older, newer = (partial(checkpoint, use_reentrant=way) for way in (True, False))
    return {"plain": try_way(plain), "older": try_way(older), "newer": try_way(newer)}


def test_a_checkpoint_keeps_one_stream_a_block_and_the_gradient(tried):
    assert 16 * 8 * STREAM < tried["plain"].kept < 16.2 * 8 * STREAM
    assert tried["older"].kept == tried["newer"].kept == 8 * STREAM + LOSS
    for way in ("older", "newer"):
        assert torch.equal(tried[way].gradient, tried["plain"].gradient)


def test_the_newer_one_leaves_its_second_run_early(tried):
    assert tried["plain"].flops < tried["newer"].flops < tried["older"].flops
    shown = str(ways_table([tried[name] for name in ("plain", "older", "older", "newer", "newer")]))
    assert "100\N{NO-BREAK SPACE}%" in shown
    assert "no" not in shown.split()


def test_offload_is_counted_both_ways():
    offload = Counted(torch.autograd.graph.save_on_cpu())
    try_way(partial(checkpoint, use_reentrant=False), around=offload)
    # the blocks' inputs, and what the loss saves
    assert offload.down == offload.up == 9 * STREAM


def test_what_a_layer_keeps_adds_up_to_what_its_block_keeps():
    from lab_utils import TrainConfig
    from lab_utils.data.loader import Loader
    from lab_utils.model import GPT

    config = TrainConfig.of("tiny", layers=2, global_batch=2)
    model, batch = GPT(config.model), Loader(config).batch(0).micro_batches[0]
    kept = kept_by_layer(model, model.blocks[1], batch)
    stream = 4 * batch.tokens.numel() * config.model.hidden
    assert kept["gelu"] == kept["mlp.down"] == 4 * stream
    assert kept["attention.key"] == kept["attention.output"] == 0
    assert 16 <= sum(kept.values()) / stream < 16.3
