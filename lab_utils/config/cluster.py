"""The machine that an estimate is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The machine that an estimate is for. Rates are what is achieved, not the data sheet's, and
    say so in `sources`.

    Bandwidths are one-way, per rank, in bytes per second; latencies are per message, in seconds.
    `link` is inside a node, `network` between nodes, `host_link` to the host's memory. `None`:
    unknown, and the time is not estimated.

    `flops_per_second` is of large bf16 matrix products, `flops_by_precision` of others; a product
    of (m, k) by (k, n) reaches it ÷ (1 + matmul_half_size·(1/m + 1/k + 1/n)), attention times
    `attention_efficiency`. The other efficiencies multiply their rate. `launch_seconds` is what
    every operation costs beside its work. `rings_across_nodes`: how many of a node's ports one
    collective uses (None: one for each of its ranks in the node). `cores`: how many ranks compute
    at once where ranks share processors. Measured on the very machine and then used first:
    `collectives` {ranks: {op: ((bytes, seconds), …)}} and `kernel_bytes_per_second` {kernel: rate}
    of element-wise kernels that are slower than memory, and `memory_share_by_size` ((bytes, share
    of that rate), …), ascending, which is left where tensors are so large. `kernels`: "cpu",
    "cuda" or "fused", whose rules say what is saved and moved (estimate.program.conventions).
    """

    name: str
    ranks_per_node: int = 8
    memory_bytes: float | None = None
    flops_per_second: float | None = None
    # of the data sheet, bf16: what MFU is counted against
    peak_flops_per_second: float | None = None
    flops_by_precision: Mapping[str, float] = field(default_factory=dict)
    matmul_efficiency: float = 1.0
    attention_efficiency: float = 1.0
    matmul_half_size: float = 0.0
    hbm_bytes_per_second: float | None = None
    hbm_efficiency: float = 1.0
    launch_seconds: float = 0.0
    link_bytes_per_second: float | None = None
    link_latency_seconds: float = 0.0
    link_efficiency: float = 1.0
    network_bytes_per_second: float | None = None
    network_latency_seconds: float = 0.0
    network_efficiency: float = 1.0
    rings_across_nodes: int | None = None
    overlaps: bool = True  # whether messages travel while a rank computes
    # by how much of their time they slow down what they travel under: both need memory and
    # processors
    overlap_cost: float = 0.0
    host_link_bytes_per_second: float | None = None
    host_memory_bytes_per_second: float | None = None
    cores: int | None = None
    collectives: Mapping[int, Mapping[str, tuple[tuple[float, float], ...]]] = field(
        default_factory=dict
    )
    kernel_bytes_per_second: Mapping[str, float] = field(default_factory=dict)
    memory_share_by_size: tuple[tuple[float, float], ...] = ()
    kernels: Literal["cpu", "cuda", "fused"] = "cpu"
    sources: Mapping[str, str] = field(default_factory=dict)

    def replace(self, **changes: Any) -> Cluster:
        """The same cluster with some fields changed."""
        return replace(self, **changes)
