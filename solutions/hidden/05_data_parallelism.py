"""Hidden checks of lab 05: the criteria of the visible ones, on ranks, sizes, operations and models drawn from a seed.

`run(namespace, seed)` gives one Result for each exercise; an answer that is missing from the namespace is None in it.
An instructor's own checks have the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from lab_utils.course.checks.lab05 import buckets, chunks, ring
from lab_utils.course.checks.verdict import Result

RANKS = (3, 4)      # at N = 2 a ring and a gather-and-sum send the same bytes, and left is right


def run(namespace: Mapping[str, Any], seed: int) -> dict[str, Result | None]:
    """Judge `chunk_bounds`, `ring_all_reduce` and `Bucketed` of a learner's namespace on cases drawn from `seed`."""
    draw = Random(seed)
    examinations = {
        "chunk_bounds": (chunks, chunk_cases(draw)),
        "ring_all_reduce": (ring, ring_cases(draw)),
        "Bucketed": (buckets, bucket_cases(draw)),
    }
    results: dict[str, Result | None] = {}
    for name, (exercise, cases) in examinations.items():
        answer = namespace.get(name)
        results[name] = None if answer is None else Result.of(f"hidden {name}", exercise.examine(answer, cases), answer, exercise.HINTS)
    return results


def chunk_cases(draw: Random) -> list[tuple[int, int]]:
    """(numel, n): a few of every kind, among them fewer elements than chunks, and sizes that one more would divide."""
    ns = [draw.randint(2, 17) for _ in range(12)]
    return [(draw.choice([draw.randint(0, n - 1), n * draw.randint(1, 9) - 1, draw.randint(n, 10**6)]), n) for n in ns]


def ring_cases(draw: Random) -> list[ring.Case]:
    """Per number of ranks: a plain case first, so that a general mistake is not taken for a special one."""
    cases = []
    for n in RANKS:
        dtype = draw.choice(["float32", "float64", "int64"])

        def case(shape: tuple[int, ...], criterion: str | None, operation: str = "add", n: int = n, dtype: str = dtype) -> ring.Case:
            return ring.Case(n, shape, criterion, operation, dtype, seed=draw.randint(1, 10**6))

        uneven = n * draw.randint(2, 9) + draw.randint(1, n - 1)
        cases += [case((n * draw.randint(2, 6),), None), case((uneven,), "uneven"), case((draw.randint(1, n - 1),), "few"),
                  case((draw.randint(2, 5), draw.randint(2, 5), 3), "shape"),
                  *(case((draw.randint(n, 40),), "combine", op) for op in draw.sample(["maximum", "minimum", "multiply"], 2))]
    return cases


def bucket_cases(draw: Random) -> list[buckets.Case]:
    """Models of random depth and widths; a tied layer; a branch that stays out on every rank, or on one."""
    cases = []
    for n in RANKS:
        dtype, size = draw.choice([("float32", 4), ("float64", 8)])
        for kind in ({}, {"tied": True}, {"unused": draw.choice(["everywhere", "one rank"]), "criterion": "unused"}):
            widths = tuple(draw.randint(5, 10) for _ in range(draw.randint(7, 10)))
            cases.append(buckets.Case(n, widths, draw.randint(100, 160) * size, dtype=dtype, seed=draw.randint(1, 10**6), **kind))
    return cases
