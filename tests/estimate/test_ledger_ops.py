"""The ledger op by op: bytes moved by hand, and a step's tensor-parallel traffic as the
papers count it. About 2 s."""

from __future__ import annotations

import pytest

from lab_utils import TrainConfig
from lab_utils.estimate.ops import backward_order, ledger_parts, op_ledger, step_flops
from lab_utils.estimate.traffic import step_traffic

BASE = TrainConfig.of(
    "tiny", layers=3, hidden=32, heads=4, seq=16, vocab=256, global_batch=4, bias=False
)
TOKENS, HIDDEN, VOCAB, FFN = 64, 32, 256, 128


def test_a_product_reads_and_writes_what_it_must():
    ops = {op.name: op for op in op_ledger(BASE)}
    down, head = ops["blocks.1.mlp.down"], ops["head"]
    assert (down.kind, down.shape, down.parameters) == (
        "matmul",
        (TOKENS, FFN, HIDDEN),
        ("blocks.1.mlp.down.weight",),
    )
    assert down.forward_flops == 2 * TOKENS * FFN * HIDDEN
    assert down.backward_flops == 2 * down.forward_flops
    assert down.forward_hbm_bytes == 4 * (TOKENS * FFN + FFN * HIDDEN + TOKENS * HIDDEN)
    # each of the two products touches the same three matrices
    assert down.backward_hbm_bytes == 2 * down.forward_hbm_bytes
    assert head.forward_hbm_bytes == 4 * (TOKENS * HIDDEN + HIDDEN * VOCAB + TOKENS * VOCAB)


def test_autocast_pays_for_its_casts():
    """bf16: the product moves half as much, but weight and input are read in fp32 and written in
    bf16 first."""
    up = {op.name: op for op in op_ledger(BASE.replace(precision="bf16"))}["blocks.0.mlp.up"]
    weight, inputs, outputs = HIDDEN * FFN, TOKENS * HIDDEN, TOKENS * FFN
    assert up.forward_hbm_bytes == 2 * (weight + inputs + outputs) + 6 * (weight + inputs)


def test_recomputation_runs_a_forward_pass_again():
    plain, again = (
        {op.name: op for op in op_ledger(BASE.replace(recompute=policy, attention="explicit"))}
        for policy in ("none", "1")
    )
    for name, op in again.items():
        runs_again = name.startswith("blocks.1.")
        assert op.recomputed_flops == (plain[name].forward_flops if runs_again else 0), name
        assert op.recomputed_hbm_bytes == (plain[name].forward_hbm_bytes if runs_again else 0), name
        assert (op.backward_flops, op.backward_hbm_bytes) == (
            plain[name].backward_flops,
            plain[name].backward_hbm_bytes,
        )


LAYOUTS = [
    {},
    {"sequence_parallel": True},
    {"recompute": "full"},
    {"sequence_parallel": True, "recompute": "0,2", "precision": "bf16"},
    {"pp": 3, "micro_batch": 1},
    {"norm": "rmsnorm", "positions": "rope", "activation": "swiglu", "tied": True},
]


@pytest.mark.parametrize("flags", LAYOUTS, ids=str)
def test_a_step_sends_along_tp_what_the_papers_count(flags):
    """Shoeybi et al. 2019, section 3: a layer is entered twice and left twice; leaving sums
    forward, entering sums backward. Korthikanti et al. 2022, section 4.2.2: a scattered sequence is
    gathered where it was left alone, scattered where it was summed, and gathered once more for the
    weights' gradients. The embedding is left, the head entered, and the loss agrees on three
    numbers a token."""
    config = BASE.replace(tp=2, **flags)
    p, m, width = config.parallel, config.micro_batches, 2 if config.precision == "bf16" else 4
    tokens = config.micro_batch * config.model.seq
    again = set(config.recomputed_layers())
    for pp in range(p.pp):
        layers = [pp] if p.pp == 3 else range(3)
        forwards = sum(2 if layer in again else 1 for layer in layers)
        first, last = pp == 0, pp == p.pp - 1
        row = m * tokens * config.model.hidden
        inside, at_embedding = (2 * len(layers) + last) * width * row, first * 4 * row
        if p.sequence_parallel:
            gathered = (2 * forwards + last) * width * row + 2 * len(layers) * width * row
            expected = {
                "all_gather": gathered + inside + at_embedding,
                "reduce_scatter": 2 * forwards * width * row + inside + at_embedding,
            }
        else:
            expected = {"all_reduce": 2 * forwards * width * row + inside + at_embedding}
        if last:
            expected["all_reduce"] = expected.get("all_reduce", 0) + 3 * m * tokens * 4
        step = [
            entry
            for entry in step_traffic(config, pp_rank=pp)
            if entry.axis == "tp" and entry.purpose == "activation"
        ]
        assert {entry.op: entry.bytes for entry in step} == expected


def test_parts_and_order():
    parts = ledger_parts(BASE)
    assert [part for part, _ in parts] == ["embed", "blocks.0", "blocks.1", "blocks.2", "head_loss"]
    ops = op_ledger(BASE)
    assert [op for _, group in parts for op in group] == ops
    assert sum(op.forward_flops + op.backward_flops for op in ops) == step_flops(BASE)["model"]
    complete = [name for _, names in backward_order(ops, tied=False) for name in names]
    assert (complete[0], complete[-1]) == ("head.weight", "token_embedding.weight")
    assert len(complete) == len(set(complete))
