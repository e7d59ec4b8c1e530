"""Activation memory as Korthikanti et al. 2022 ("Reducing Activation Recomputation in Large
Transformer Models") count it.

Their closed forms, sbh(10 + 24/t + 5as/(ht)) bytes a layer and 34·sbh/t with sequence parallelism
and selective recomputation, are not written down here: the same program runs as for our own engine,
with what Megatron-LM does otherwise. Numbers are fp16; after attention weights, attention and MLP
comes a dropout, whose mask takes one byte an element; scale, mask and softmax are one kernel, which
saves its result alone; and statistics of norms, embeddings and logits are left out.
"""

from __future__ import annotations

from ...config import ModelConfig, ParallelConfig, TrainConfig
from .attention import mix, products, softmax
from .conventions import MEGATRON
from .heads import Heads
from .kernels import Torch
from .live import Value
from .rank_shape import held_placements, held_shapes
from .tensor import ParallelProgram

# a parameter's fp16 weight, fp32 gradient, fp32 master weight and two fp32 moments
STATE_BYTES = 18


def dropout(torch: Torch, x: Value) -> Value:
    """x with some of it zeroed; saves which."""
    y, mask = torch.new(x.numel, x.width, x.nbytes), torch.new(x.numel, 1)
    torch.record(
        y,
        (x,),
        (mask,),
        lambda saved, g: (torch.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
    )
    return y


class MegatronProgram(ParallelProgram):
    """A block as Megatron-LM runs it."""

    def _then_add(self, x: Value, y: Value, scope: str) -> Value:
        self.torch.enter(scope.replace("residual", "dropout"))
        return super()._then_add(x, dropout(self.torch, y), scope)

    def _core(self, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
        torch = self.torch
        # scale, mask and softmax are one kernel
        weights = dropout(torch, softmax(torch, products(torch, q, k, heads)))
        return mix(torch, weights, v, heads)


def layer_activations(
    model: ModelConfig,
    *,
    micro_batch: int,
    tp: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> dict[str, int]:
    """Bytes that one layer saves for one micro-batch on each of tp ranks, by op ("attention.core",
    "mlp.down" …).

    `recompute`: "none", "selective" or "full". Only the model's hidden, heads, ffn and seq matter.
    """
    config = _config(model, micro_batch, tp, sequence_parallel, recompute)
    torch = Torch(MEGATRON)
    program = MegatronProgram(torch, config, held_shapes(config, ["blocks.0"], 0))
    found: dict[str, int] = {}
    at, before = "attention_norm", 0

    def entered(scope: str) -> None:
        nonlocal at, before
        if torch.saved != before:
            found[at] = found.get(at, 0) + torch.saved - before
        at, before = scope.removeprefix("blocks.0."), torch.saved

    torch.watcher = entered
    x = torch.embedding(
        next(iter(program.leaves.values())).value,
        torch.new(1, 1),
        micro_batch * model.seq // (tp if sequence_parallel else 1),
        model.hidden,
    )
    before = torch.saved
    y = program.run_block(0, x)
    entered("end")
    del y
    return found


def layer_matrices(model: ModelConfig, tp: int = 1) -> int:
    """Elements of one layer's weight matrices on each of tp ranks; 12h²/t where the MLP is four
    times as wide."""
    config = _config(model, 1, tp, False, "none")
    return sum(
        place.numel
        for name, place in held_placements(config, ["blocks.0"], 0).items()
        if len(place.shape) > 1
    )


def interleaving_factor(pp: int, virtual_stages: int) -> float:
    """How much more the first rank holds in flight when its layers are interleaved: 1 + (p−1)/(p·v)
    (their section 4.2.3)."""
    return 1 + (pp - 1) / (pp * virtual_stages) if virtual_stages > 1 else 1.0


def _config(
    model: ModelConfig, micro_batch: int, tp: int, sequence_parallel: bool, recompute: str
) -> TrainConfig:
    shape = ModelConfig(
        layers=1,
        hidden=model.hidden,
        heads=model.heads,
        ffn=model.ffn,
        seq=model.seq,
        vocab=max(model.vocab, tp),
        attention="explicit",
    )
    return TrainConfig(
        model=shape,
        parallel=ParallelConfig(tp=tp, sequence_parallel=sequence_parallel),
        global_batch=micro_batch,
        precision="bf16-pure",
        recompute=recompute,
    )
