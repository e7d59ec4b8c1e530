"""Seconds of one operation: it is as slow as the slower of its arithmetic and its memory traffic,
and it has to be launched.

Williams, Waterman and Patterson 2009, "Roofline". Arithmetic runs at less than the machine's rate
where a matrix product is small: a product of (m, k) by (k, n) reaches rate ÷ (1 + s·(1/m + 1/k +
1/n)), so s is the size at which one short side alone halves the rate. It stands for tiles that the
edges leave part-empty and for pipelines that have to fill.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf, log2
from typing import TYPE_CHECKING, NamedTuple

from ...config import Cluster, TrainConfig

if TYPE_CHECKING:
    from ..ops import Op


class OpTime(NamedTuple):
    """Seconds of one op for one micro-batch. `backward` is of the gradient of its input, `weight`
    of that of its weights."""

    forward: float
    backward: float
    weight: float
    recomputed: float


def matmul_rate(cluster: Cluster, precision: str, shape: tuple[int, int, int] | None) -> float:
    """FLOP/s of a product of (m, k) by (k, n) in a TrainConfig's `precision`; without a shape, of a
    large one."""
    rate = (
        cluster.flops_by_precision.get(precision, cluster.flops_per_second)
        * cluster.matmul_efficiency
    )
    if shape is None or not cluster.matmul_half_size:
        return rate
    return rate / (1 + cluster.matmul_half_size * sum(1 / side for side in shape if side))


def memory_rate(cluster: Cluster, kernel: str = "copy") -> float:
    """Bytes per second that an element-wise kernel reads and writes; infinite where the cluster's
    memory rate is not known."""
    if kernel in cluster.kernel_bytes_per_second:
        return cluster.kernel_bytes_per_second[kernel]
    return (cluster.hbm_bytes_per_second or inf) * cluster.hbm_efficiency


def share_of_rate(cluster: Cluster, nbytes: float) -> float:
    """What is left of a memory rate where the tensors have `nbytes`: on the line between two
    measured sizes, in doublings."""
    points = cluster.memory_share_by_size
    if not points or nbytes <= points[0][0]:
        return points[0][1] if points else 1.0
    for (small, before), (large, after) in pairwise(points):
        if nbytes <= large:
            return before + (after - before) * log2(nbytes / small) / log2(large / small)
    return points[-1][1]


def largest_bytes(op: Op, config: TrainConfig) -> float:
    """Bytes of the largest tensor that an op makes, its gradients included, as far as its sizes
    tell."""
    width, p = 4 if config.precision == "fp32" else 2, config.parallel
    if op.shape is not None:
        m, k, n = op.shape
        return max(m * k, k * n, m * n) * width
    if op.kind == "attention" and config.model.attention == "explicit":
        return width * config.micro_batch * config.model.heads * config.model.seq**2 / p.tp
    if op.kind == "lookup":
        return max(op.forward_hbm_bytes / 2, op.backward_hbm_bytes)
    return op.forward_hbm_bytes / 2


def op_time(op: Op, config: TrainConfig, cluster: Cluster) -> OpTime:
    """Seconds of `op` on one rank of `cluster`.

    A matrix product overlaps its arithmetic with its memory traffic; attention written out is
    products and element-wise passes one after the other, so its two times add up. Backward halves
    fall to input and weight where there is a weight.
    """
    model = config.model
    shape = op.shape or ((model.seq, model.head_dim, model.seq) if op.kind == "attention" else None)
    rate = matmul_rate(cluster, config.precision, shape)
    memory = memory_rate(cluster, kernel_of(op)) * share_of_rate(cluster, largest_bytes(op, config))
    if op.kind == "attention":
        rate *= cluster.attention_efficiency
    together = op.kind == "attention" and model.attention == "explicit"

    def seconds(flops: float, nbytes: float, launches: int) -> float:
        arithmetic, traffic = flops / rate, nbytes / memory
        if not flops and not nbytes:
            return 0.0
        return (
            arithmetic + traffic if together else max(arithmetic, traffic)
        ) + launches * cluster.launch_seconds

    backward = seconds(
        op.backward_flops, op.backward_hbm_bytes, 2 if op.kind in ("matmul", "attention") else 1
    )
    of_weight = backward / 2 if op.kind == "matmul" else 0.0
    return OpTime(
        seconds(op.forward_flops, op.forward_hbm_bytes, 1),
        backward - of_weight,
        of_weight,
        seconds(op.recomputed_flops, op.recomputed_hbm_bytes, 1),
    )


_KERNELS = {
    "norm": "norm",
    "gelu": "activation",
    "silu": "activation",
    "activation": "activation",
    "embedding": "embedding",
    "softmax": "softmax",
    "loss": "loss",
    "residual": "add",
    "add": "add",
}


def kernel_of(op: Op) -> str:
    """The calibrated kernel that an op is nearest to, by the last word of its name; "copy" for all
    others."""
    last = op.name.rsplit(".", 1)[-1]
    return next((kernel for word, kernel in _KERNELS.items() if word in last), "copy")
