"""Bytes on the wire: what one rank sends for a collective done with a ring.

A ring is bandwidth-optimal (Patarasuk and Yuan 2009), so these are also the least that any
algorithm sends.
"""

from __future__ import annotations

from fractions import Fraction

_SHARE_OF_RING = {
    "all_reduce": 2,
    "reduce_scatter": 1,
    "all_gather": 1,
    "all_to_all": 1,
    "broadcast": 1,
}


def wire_bytes(op: str, payload_bytes: int, ranks: int) -> int:
    """Bytes that one of `ranks` sends, for an unsharded tensor of `payload_bytes`; rounded to a
    whole byte.

    all_reduce 2(N−1)/N of it; reduce_scatter, all_gather and all_to_all (N−1)/N; send: all of it.
    A broadcast leaves N−1 times, whatever its algorithm, and not from every rank: each is charged
    (N−1)/N of it, the mean over the ranks, which is exact where every rank broadcasts an equal part
    in turn. Raises KeyError otherwise.
    """
    if op == "send":
        return payload_bytes if ranks > 1 else 0
    return round(Fraction(_SHARE_OF_RING[op] * (ranks - 1) * payload_bytes, ranks))
