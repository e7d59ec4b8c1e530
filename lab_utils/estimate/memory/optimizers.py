"""Bytes that torch's own optimizer steps need for a moment, by the way in which they run."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

FP32 = 4


def update_temporary_bytes(
    kind: str, way: str, shapes: Iterable[tuple[tuple[int, ...], int]]
) -> int:
    """The most bytes that torch's step of `kind` ("sgd" or "adamw") needs for a moment, in fp32,
    for tensors of these shapes, (shape, how many) each.

    `way`: "fused", one kernel, as our engine runs it: nothing. "foreach", torch's default on a GPU:
    AdamW's square roots of all second moments at once, the parameters once more. "for-loop": the
    same of one tensor at a time, twice. Steps' counts of 4 bytes are left out. Raises KeyError for
    other names.
    """
    sizes = [(FP32 * prod(shape), count) for shape, count in shapes]
    roots = {"sgd": 0, "adamw": 1}[kind]
    return (
        roots
        * {
            "fused": 0,
            "foreach": sum(size * count for size, count in sizes),
            "for-loop": 2 * max(size for size, _ in sizes),
        }[way]
    )
