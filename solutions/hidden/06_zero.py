"""Hidden checks of lab 06: the criteria of the visible ones, on models, precisions, limits and overflows drawn from a seed.

`run(namespace, seed)` gives one Result for each exercise; an answer that is missing from the namespace is None in it.
An instructor's own checks have the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from lab_utils.course.checks.lab06 import blocks, gradients, update
from lab_utils.course.checks.lab06.training import Case
from lab_utils.course.checks.verdict import Result

RANKS = (3, 4)      # at N = 2 a wrong neighbour is the only one there is, and most sizes need no padding


def run(namespace: Mapping[str, Any], seed: int) -> dict[str, Result | None]:
    """Judge `Zero1`, `Zero2` and `Zero3` of a learner's namespace on cases drawn from `seed`."""
    draw = Random(seed)
    examinations = {
        "Zero1": (update, update_cases(draw)),
        "Zero2": (gradients, gradient_cases(draw)),
        "Zero3": (blocks, block_cases(draw)),
    }
    results: dict[str, Result | None] = {}
    for name, (exercise, cases) in examinations.items():
        answer = namespace.get(name)
        results[name] = None if answer is None else Result.of(f"hidden {name}", exercise.examine(answer, cases), answer, exercise.HINTS)
    return results


def plain(draw: Random, n: int, depth: int, **kind: Any) -> Case:
    """A model of `depth` equal blocks whose every parameter n divides."""
    width, inner = (n * draw.choice([3, 4]) for _ in range(2))
    return Case(n, width, (inner,) * depth, dtype=draw.choice(["float32", "float64"]), seed=draw.randint(1, 10**6), **kind)


def uneven(draw: Random, n: int, depth: int, criterion: str = "padding", **kind: Any) -> Case:
    """A model whose blocks differ, and of whose elements n leaves some over: in all, in a block, in a parameter."""
    while True:
        case = Case(n, draw.randint(5, 9), tuple(draw.randint(6, 12) for _ in range(depth)), criterion, gain=True,
                    dtype=draw.choice(["float32", "float64"]), seed=draw.randint(1, 10**6), **kind)
        if case.numel % n and any(sum(block) % n for block in case.shapes):
            return case


def update_cases(draw: Random) -> list[Case]:
    """Per number of ranks: a plain case first, so that a general mistake is not taken for a special one."""
    return [case for n in RANKS for case in (plain(draw, n, draw.randint(2, 4)), uneven(draw, n, 3, optimizer=draw.choice(["sgd", "adamw"])))]


def gradient_cases(draw: Random) -> list[Case]:
    """Padding on either number of ranks; a limit that clips; an overflow in any step."""
    first, second = draw.sample(RANKS, 2)
    return [
        plain(draw, first, 5), uneven(draw, first, 3), plain(draw, first, 2, criterion="norm", max_norm=draw.choice([0.1, 0.3, 0.7])),
        plain(draw, first, 2, criterion="overflow", max_norm=1.0, overflow_at=draw.randint(0, 2)),
        uneven(draw, second, 3, "any-n", optimizer=draw.choice(["sgd", "adamw"]), max_norm=0.5),
    ]  # fmt: skip


def block_cases(draw: Random) -> list[Case]:
    """Enough blocks that two of them are little, and then fewer whose sizes differ."""
    first, second = draw.sample(RANKS, 2)
    return [plain(draw, first, 12), uneven(draw, first, draw.randint(3, 5)), uneven(draw, second, draw.randint(3, 5), "any-n")]
