"""Gradient buckets, as data: which parameters travel together, and in which order the buckets
leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Bucket(NamedTuple):
    """Gradients that share one flat buffer; `offsets` are in elements, one per name."""

    names: tuple[str, ...]
    offsets: tuple[int, ...]
    numel: int


def assign_buckets(
    numels: Mapping[str, int], bucket_bytes: int, element_bytes: int = 4
) -> tuple[Bucket, ...]:
    """Fill buckets in the reverse of the forward order, because that is (nearly) the order in which
    gradients appear.

    `numels`: parameter name → elements, in forward order. A bucket is closed as soon as it holds
    `bucket_bytes` or more, so every bucket but the last is at least that large (Li et al. 2020,
    "PyTorch Distributed", section 3.2.3). A gradient that reaches `bucket_bytes` alone travels
    alone, so that it needs no copying; a parameter is never split.
    """
    buckets: list[Bucket] = []
    names: list[str] = []
    offsets: list[int] = []
    filled = 0
    for name, numel in reversed(list(numels.items())):
        if numel * element_bytes >= bucket_bytes:
            buckets.append(Bucket((name,), (0,), numel))
            continue
        names.append(name)
        offsets.append(filled)
        filled += numel
        if filled * element_bytes >= bucket_bytes:
            buckets.append(Bucket(tuple(names), tuple(offsets), filled))
            names, offsets, filled = [], [], 0
    if names:
        buckets.append(Bucket(tuple(names), tuple(offsets), filled))
    return tuple(buckets)
