"""What the tensor-parallelism tool counts: one step of each of its settings. Every number is the
estimator's."""

from __future__ import annotations

import functools
from typing import NamedTuple

from ...config import ConfigError, TrainConfig
from ...estimate import estimate
from ...estimate.hardware import cluster
from ...estimate.ops import op_ledger
from ...estimate.time import step_time
from ...layout.refusals import refuse_layout
from ..frame.controls import State

RANKS = (1, 2, 4, 8, 16)
MODELS = ("gpt2-xl", "llama3-8b", "llama3-70b", "gpt3-175b")
MICRO_BATCHES = (1, 2, 4)
GPU = cluster("H100-SXM")  # 8 to a machine
SETTING = ("ranks", "sequence", "model", "micro_batch")
MEMORY_BYTES = 80e9


class Cost(NamedTuple):
    """One step of one micro-batch, on rank 0, which holds most: bytes, FLOPs and seconds."""

    states: int
    activations: int
    peak: int
    flops: int
    sent: int
    step_seconds: float
    waiting_seconds: float

    @property
    def waiting(self) -> float:
        """The share of the step in which the rank stands still for messages."""
        return self.waiting_seconds / self.step_seconds


def config_of(state: State) -> TrainConfig:
    """The training run that a state of the tool stands for: weights in bf16, AdamW."""
    return _config(*(state[name] for name in SETTING))


def cost_of(state: State) -> Cost | None:
    """What it costs; None where the ranks are more than the key/value heads."""
    return _cost(*(state[name] for name in SETTING))


def yardstick(state: State) -> Cost:
    """The same work on one rank."""
    return _cost(1, False, state["model"], state["micro_batch"])


@functools.lru_cache(maxsize=256)
def _config(ranks: int, sequence: bool, model: str, micro_batch: int) -> TrainConfig:
    return TrainConfig.of(
        model,
        tp=ranks,
        sequence_parallel=sequence and ranks > 1,
        global_batch=micro_batch,
        micro_batch=micro_batch,
        precision="bf16-pure",
    )


@functools.lru_cache(maxsize=256)
def _cost(ranks: int, sequence: bool, model: str, micro_batch: int) -> Cost | None:
    config = _config(ranks, sequence, model, micro_batch)
    try:
        refuse_layout(config)
    except ConfigError:
        return None
    rank, step = estimate(config, GPU).ranks[0], step_time(config, GPU)
    return Cost(
        states=sum(rank.memory[term] for term in ("parameters", "gradients", "optimizer")),
        activations=rank.memory["activations"],
        peak=rank.memory["peak"],
        flops=sum(op.forward_flops + op.backward_flops for op in op_ledger(config)),
        sent=rank.total("wire_bytes", axis="tp"),
        step_seconds=step.step,
        waiting_seconds=step.communication,
    )
