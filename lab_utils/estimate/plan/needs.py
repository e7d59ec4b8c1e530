"""Bytes on the fullest GPU: exactly, rank by rank, and at least, for telling in microseconds what
cannot fit.

What a rank of our engine needs is `memory/`'s to the byte. Other frameworks have rules of their own
(Framework.keeps), or keep gradients in another format, save what dropout needs, and update weight
by weight: said in `frameworks.py`, added here, and no more exact than that.
"""

from __future__ import annotations

from itertools import product

from ...config import TrainConfig
from ...layout.stages import stage_layers
from ..memory.fast.closed_form import rank_memory
from ..memory.terms import element_bytes, lasting_bytes
from ..ops import block_ledger
from ..program.share import Share, alike_in_ring
from ..time.frameworks import OURS, Framework

# of a score, in its own width: the masked copy, and a byte of mask beside two of fp16
_DROPOUT_BYTES = 1.5


def needed_bytes(config: TrainConfig, framework: Framework = OURS, kernels: str = "cpu") -> int:
    """The most that any rank has alive at once, by the framework's rules or those of a cluster's
    `kernels`."""
    kernels = framework.keeps or kernels
    ring = {alike_in_ring(config, cp) for cp in range(config.parallel.cp)}
    return max(
        _rank_bytes(config, rank, framework, kernels, cp)
        for rank, cp in product(_ranks_that_may_be_fullest(config), ring)
    )


def least_bytes(config: TrainConfig, framework: Framework = OURS, kernels: str = "cpu") -> int:
    """No more than the first rank needs, while micro-batches are under way or when all gradients
    are there.

    Under way: weights, optimizer states, what its blocks save for the micro-batches in flight, and
    what one block brings back when it is recomputed, or the loss saves; gradients where earlier
    micro-batches left them. Then: all states, and for our optimizer, which updates fp32 weights,
    the gradients in fp32.
    """
    kernels = framework.keeps or kernels
    p, states = config.parallel, lasting_bytes(config, convention=kernels)
    blocks = sum(map(len, stage_layers(config.model.layers, p.pp * p.virtual_stages)[:: p.pp]))
    own, ends = _saved(config, config.recompute, kernels)
    once = _saved(config, "none", kernels)[0] - own if config.recompute == "full" else 0
    lasting, gradients = states["parameters"] + states["optimizer"], states["gradients"]
    under_way = (
        own * blocks * _in_flight(config)
        + max(once, ends if p.pp == 1 else 0)
        + (gradients if config.micro_batches > _in_flight(config) else 0)
    )
    owned = gradients // (p.replicas if p.zero == 1 else 1)
    updating = (
        2 * owned if framework is OURS and config.precision == "bf16-pure" and not p.offload else 0
    )
    return lasting + max(under_way, gradients + updating)


def _saved(config: TrainConfig, policy: str, kernels: str) -> tuple[int, int]:
    """Bytes that one micro-batch keeps of a block, and of the model's head and loss."""
    ledger = block_ledger(
        config.model,
        config.micro_batch,
        config.precision,
        Share.of(config, cp_rank=1),
        policy,
        kernels,
    )
    return sum(op.saved_bytes for op in ledger["blocks.0"]), sum(
        op.saved_bytes for op in ledger["head_loss"]
    )


def _in_flight(config: TrainConfig) -> int:
    """Micro-batches that the first rank has under way at once; interleaving adds to it."""
    p, m = config.parallel, config.micro_batches
    return m if p.schedule == "gpipe" else min(m, p.pp)


def _ranks_that_may_be_fullest(config: TrainConfig) -> set[int]:
    """The first and the last pipeline ranks, with the model's ends, those beside them, and the
    outermost with the most blocks."""
    p = config.parallel
    layers = stage_layers(config.model.layers, p.pp * p.virtual_stages)
    counts = [sum(map(len, layers[rank :: p.pp])) for rank in range(p.pp)]
    fullest = [rank for rank, count in enumerate(counts) if count == max(counts)]
    return {
        rank for rank in (0, 1, p.pp - 2, p.pp - 1, fullest[0], fullest[-1]) if 0 <= rank < p.pp
    }


def _rank_bytes(
    config: TrainConfig, rank: int, framework: Framework, kernels: str, cp_rank: int
) -> int:
    states = lasting_bytes(config, rank, kernels)
    memory = rank_memory(config, rank, 0, states["optimizer"], kernels, cp_rank)
    if framework is OURS:
        return memory.peak
    if framework.keeps:
        return memory.passes_peak
    held = element_bytes(config)
    gradients = states["gradients"] // held * (max(held, framework.gradient_bytes or held) - held)
    return (
        memory.passes_peak
        + gradients
        + (_dropout_bytes(config) if rank == 0 and framework.score_passes is not None else 0)
    )


def _dropout_bytes(config: TrainConfig) -> int:
    """Attention written out saves dropout's mask and its result besides; the first rank holds
    most."""
    p, model = config.parallel, config.model
    if model.attention != "explicit" or config.recompute != "none":
        return 0
    scores = element_bytes(config) * config.micro_batch * model.heads * model.seq**2 // p.tp
    return int(_DROPOUT_BYTES * scores) * -(-model.layers // p.pp) * _in_flight(config)
