"""Seconds of one data-parallel step: compute on one line, the wire on another, and what of the wire
stays visible.

The simplest model that shows overlap, for lesson 05: compute takes FLOPs ÷ achieved FLOP/s, the
wire carries what its data sheet says, and every bucket has its own moment. `step.py` prices any
layout, with small products, memory and efficiencies. Buckets leave in order, each as soon as its
last gradient exists and the wire is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ...config import Cluster, ConfigError, TrainConfig
from ...i18n import t
from ...layout.parameters import parameter_count
from ...layout.wire import wire_bytes
from ..ops import backward_order, op_ledger
from ..traffic import GRADIENT_BYTES, gradient_messages
from .links import Link, axis_link, collective_seconds
from .wires import OPTIMIZER_STEP_BYTES


@dataclass(frozen=True)
class BucketTime:
    """One all-reduce: when its last gradient exists, when it starts, when every rank has the sum
    (seconds into the step)."""

    names: tuple[str, ...]
    numel: int
    bytes: int
    ready_seconds: float
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True)
class DataParallelStep:
    """One step of one rank. `forward_seconds` and `backward_seconds` are of all micro-batches
    together."""

    forward_seconds: float
    backward_seconds: float
    optimizer_seconds: float
    buckets: tuple[BucketTime, ...]
    payload_bytes: int
    wire_bytes: int

    @cached_property
    def compute_seconds(self) -> float:
        """Forward, backward and optimizer: what the step takes with no wire at all."""
        return self.forward_seconds + self.backward_seconds + self.optimizer_seconds

    @cached_property
    def communication_seconds(self) -> float:
        """Seconds in which the wire is busy."""
        return sum(b.end_seconds - b.start_seconds for b in self.buckets)

    @cached_property
    def exposed_seconds(self) -> float:
        """Seconds after the backward pass in which the rank waits for the wire."""
        backward_end = self.forward_seconds + self.backward_seconds
        return (
            max((b.end_seconds for b in self.buckets), default=backward_end) - backward_end
            if self.buckets
            else 0.0
        )

    @cached_property
    def hidden_seconds(self) -> float:
        """Seconds of the wire's work that ran under the backward pass."""
        backward_end = self.forward_seconds + self.backward_seconds
        return sum(
            max(0.0, min(b.end_seconds, backward_end) - b.start_seconds) for b in self.buckets
        )

    @cached_property
    def step_seconds(self) -> float:
        """The whole step."""
        return self.compute_seconds + max(0.0, self.exposed_seconds)

    @cached_property
    def scaling_efficiency(self) -> float:
        """Throughput of N ranks ÷ N × the throughput of one rank with the same work per rank; 1 is
        perfect."""
        return self.compute_seconds / self.step_seconds


def all_reduce_seconds(
    payload_bytes: float, ranks: int, bytes_per_second: float, latency_seconds: float
) -> float:
    """Seconds of an all-reduce over a link of this bandwidth and latency:
    `links.collective_seconds` says how."""
    return collective_seconds(
        "all_reduce", payload_bytes, ranks, Link(bytes_per_second, latency_seconds)
    )


_parameters = lru_cache(maxsize=64)(parameter_count)


def data_parallel_step(config: TrainConfig, cluster: Cluster) -> DataParallelStep:
    """Predict one step of `config` under data parallelism on `cluster`.

    Raises ConfigError where the cluster's rates are not known.
    """
    if cluster.flops_per_second is None or cluster.link_bytes_per_second is None:
        raise ConfigError(
            t(
                f"the speed of {cluster.name} is not known: give its FLOP/s and link bandwidth, or"
                " name a GPU.",
                f"不知道 {cluster.name} 的速度：请给出算力与链路带宽，或指定一种 GPU。",
            )
        )
    ops, rate, m = (
        op_ledger(config, convention=cluster.kernels),
        cluster.flops_per_second,
        config.micro_batches,
    )
    forward = m * sum(op.forward_flops for op in ops) / rate
    one_backward = sum(op.backward_flops + op.recomputed_flops for op in ops) / rate
    messages = gradient_messages(config) if config.parallel.dp > 1 else ()

    # gradients are final, so may leave, in the last micro-batch only
    clock, ready = forward + (m - 1) * one_backward, {}
    for op, names in backward_order(ops, config.model.tied):
        clock += (op.backward_flops + op.recomputed_flops) / rate
        ready.update(dict.fromkeys(names, clock))
    backward_end = forward + m * one_backward
    overlapped = config.parallel.gradient_sync == "bucketed"

    buckets, wire_free = [], 0.0
    link = axis_link(
        cluster.replace(link_efficiency=1.0, network_efficiency=1.0), config.parallel, "dp"
    )
    for message in messages:
        ready_at = max(ready[name] for name in message.names)
        start = max(wire_free, ready_at if overlapped else backward_end)
        payload = GRADIENT_BYTES * message.numel
        wire_free = start + collective_seconds("all_reduce", payload, config.parallel.dp, link)
        buckets.append(
            BucketTime(message.names, message.numel, payload, ready_at, start, wire_free)
        )

    optimizer = 0.0
    if cluster.hbm_bytes_per_second:
        optimizer = (
            OPTIMIZER_STEP_BYTES[config.optimizer]
            * _parameters(config.model)
            / cluster.hbm_bytes_per_second
        )
    payload = sum(b.bytes for b in buckets)
    return DataParallelStep(
        forward,
        m * one_backward,
        optimizer,
        tuple(buckets),
        payload,
        wire_bytes("all_reduce", payload, config.parallel.dp),
    )
