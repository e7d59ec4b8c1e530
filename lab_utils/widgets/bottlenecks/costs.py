"""What the bottleneck tool counts: the operations of a block, and a step. Every number is the
estimator's."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...config import Cluster, TrainConfig
from ...estimate.fit import RESERVED_BYTES
from ...estimate.hardware import cluster
from ...estimate.ops import block_ledger
from ...estimate.plan.needs import needed_bytes
from ...estimate.time import StepTime, step_time
from ...estimate.time.roofline import op_time
from ..frame.controls import State

MODELS = ("gpt2", "gpt2-xl", "llama3-8b")
GPUS = ("A100-80", "H100-SXM")
BATCHES = (1, 2, 4, 8, 16, 32, 64)  # sequences on one GPU
LENGTHS = (1024, 4096)
RANKS = (1, 8, 64)
NETWORKS = {"400": 50e9, "10": 1.25e9}  # Gb/s → bytes per second and GPU, between nodes of 8
JOB = ("model", "gpu", "precision", "length", "batch")
SETTING = ("model", "gpu", "precision", "length", "ranks", "network", "batch")


class OpDot(NamedTuple):
    """The forward pass of one operation: FLOPs per byte, and the FLOP/s that it is estimated to
    reach. Both are 0 for element-wise work, which counts as no FLOPs."""

    name: str
    kind: str
    intensity: float
    flops_per_second: float


def gpu_of(state: State) -> Cluster:
    """The GPU, without a network."""
    return cluster(state["gpu"])


def ridge(gpu: Cluster) -> float:
    """FLOPs per byte at which the data sheet's two roofs meet."""
    return gpu.peak_flops_per_second / gpu.hbm_bytes_per_second


def dots_of(state: State) -> tuple[OpDot, ...]:
    """The operations of one block, in forward order."""
    return _dots(*(state[name] for name in JOB))


@lru_cache(maxsize=256)
def _dots(model: str, gpu: str, precision: str, length: int, batch: int) -> tuple[OpDot, ...]:
    config, here = _config(model, precision, length, 1, batch), cluster(gpu)
    ops = block_ledger(config.model, batch, precision, convention=here.kernels)["blocks.0"]
    return tuple(
        OpDot(
            op.name.removeprefix("blocks.0."),
            op.kind,
            op.forward_flops / op.forward_hbm_bytes,
            op.forward_flops / op_time(op, config, here).forward,
        )
        for op in ops
    )


def step_of(state: State) -> StepTime:
    """The estimator's step in a state of the tool."""
    return _step(*(state[name] for name in SETTING))


@lru_cache(maxsize=2048)
def _step(
    model: str, gpu: str, precision: str, length: int, ranks: int, network: str, batch: int
) -> StepTime:
    here = cluster(gpu).replace(network_bytes_per_second=NETWORKS[network])
    return step_time(_config(model, precision, length, ranks, batch), here)


def bytes_of(state: State) -> int:
    """The most that a GPU has alive at once, by the rules of CUDA's kernels."""
    job = (state[name] for name in ("model", "precision", "length", "ranks", "batch"))
    return needed_bytes(_config(*job), kernels="cuda")


def free_bytes(gpu: Cluster) -> float:
    """What a GPU has for them: the rest is CUDA's and NCCL's (an assumption of the estimator)."""
    return gpu.memory_bytes - RESERVED_BYTES


@lru_cache(maxsize=2048)
def _config(model: str, precision: str, length: int, ranks: int, batch: int) -> TrainConfig:
    return TrainConfig.of(
        model,
        seq=length,
        dp=ranks,
        global_batch=batch * ranks,
        micro_batch=batch,
        precision=precision,
        bucket_mib=25,
    )
