"""Seconds of collectives and messages, from where on the machine an axis lies and how the bytes go
round.

Our rank grid is (dp, pp, cp, tp) with tp innermost: neighbours on an axis are `stride` ranks apart,
and nodes are filled in the order of ranks, so whether an axis leaves its node follows from the
stride, its size and `ranks_per_node`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, log2, prod

from ...config import Cluster, ParallelConfig

_PASSES = {"all_reduce": 2, "reduce_scatter": 1, "all_gather": 1, "all_to_all": 1}


@dataclass(frozen=True)
class Link:
    """What one rank of a ring can send (bytes per second), the latency of one message (seconds),
    and how far it goes.

    `measured`: seconds of whole collectives found by calibration, {op: ((bytes, seconds), …)}; they
    come first.
    """

    bytes_per_second: float
    latency_seconds: float
    crosses_nodes: bool = False
    measured: Mapping[str, tuple[tuple[float, float], ...]] | None = None


def axis_stride(parallel: ParallelConfig, axis: str) -> int:
    """How many ranks lie between neighbours of `axis` ("dp", "pp", "cp" or "tp")."""
    inner = {"tp": (), "cp": ("tp",), "pp": ("tp", "cp"), "dp": ("tp", "cp", "pp")}[axis]
    return prod(getattr(parallel, name) for name in inner)


def axis_link(cluster: Cluster, parallel: ParallelConfig, axis: str) -> Link:
    """The link that sets the pace of a ring along `axis`; "data": along dp and cp together.

    What was measured on this machine comes first: with as many ranks, or with the nearest number
    that was measured. Between nodes libraries run several rings side by side, each crossing through
    another rank's network port, so the ports of those of a node's ranks that are on the axis add
    up, unless `cluster.rings_across_nodes` says how many there are.
    """
    if axis == "data":  # dp and cp as one: as far apart as the outer of the two that is there
        size, stride = parallel.replicas, axis_stride(parallel, "dp" if parallel.dp > 1 else "cp")
    else:
        size, stride = getattr(parallel, axis), axis_stride(parallel, axis)
    measured = (
        cluster.collectives[min(cluster.collectives, key=lambda ranks: abs(ranks - size))]
        if cluster.collectives
        else None
    )
    inside = Link(
        (cluster.link_bytes_per_second or inf) * cluster.link_efficiency,
        cluster.link_latency_seconds,
        False,
        measured,
    )
    span = size * stride
    if (
        size == 1
        or cluster.network_bytes_per_second is None
        or span <= cluster.ranks_per_node
        and cluster.ranks_per_node % span == 0
    ):
        return inside
    if span <= cluster.ranks_per_node and parallel.world_size <= cluster.ranks_per_node:
        return inside
    ports = max(1, min(size, cluster.ranks_per_node // stride))
    rings = min(ports, cluster.rings_across_nodes or ports)
    across = rings * cluster.network_bytes_per_second * cluster.network_efficiency
    latency = max(cluster.link_latency_seconds, cluster.network_latency_seconds)
    return Link(
        min(inside.bytes_per_second, across) if ports > 1 else across, latency, True, measured
    )


def collective_seconds(op: str, payload_bytes: float, ranks: int, link: Link) -> float:
    """Seconds of "all_reduce", "reduce_scatter", "all_gather" (of an unsharded tensor of
    `payload_bytes`), "all_to_all" or "send".

    Ring: 2(N−1) steps for an all-reduce, N−1 for the other three, each a latency and one chunk of
    B/N (Patarasuk and Yuan 2009; Thakur et al. 2005, section 4). An all-reduce takes two pipelined
    trees instead where they are faster: 2⌈log₂N⌉ latencies and 2B on the wire (Sanders, Speck and
    Träff 2009). A send is one latency and B. Raises KeyError otherwise.
    """
    if ranks == 1 or payload_bytes == 0:
        return 0.0
    if link.measured and op in link.measured:
        return interpolate(link.measured[op], payload_bytes)
    latency, rate = link.latency_seconds, link.bytes_per_second
    if op == "send":
        return latency + payload_bytes / rate
    ring = _PASSES[op] * (ranks - 1) * (latency + payload_bytes / (ranks * rate))
    if op != "all_reduce":
        return ring
    return min(ring, 2 * ceil(log2(ranks)) * latency + 2 * payload_bytes / rate)


def interpolate(points: Sequence[tuple[float, float]], size: float) -> float:
    """Seconds at `size` bytes on the line through the two nearest of `points`, ascending (bytes,
    seconds).

    Beyond the largest the last rate goes on, below the smallest its seconds: they are latency.
    """
    below = points[0]
    if size <= below[0]:
        return below[1]
    for above in points[1:]:
        if size <= above[0]:
            share = (size - below[0]) / (above[0] - below[0])
            return below[1] + share * (above[1] - below[1])
        below = above
    return below[1] * size / below[0]
