"""Which cases of a large set run in `make test`: as few as hold every pair of values that the set
holds; `make test-all` runs the whole set.

Most faults need one value or two together to show: a ring that is wrong where nothing divides, a
norm that forgets an axis. A set in which every two values meet somewhere finds those with a fifth
of the runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

# the environment variable that `make test-all` sets; with 2 nothing at all is left out, which takes
# hours: `make test-all LAB_EXHAUSTIVE=2`
EXHAUSTIVE = bool(os.environ.get("LAB_EXHAUSTIVE"))
EVERYTHING = os.environ.get("LAB_EXHAUSTIVE") == "2"
Case = TypeVar("Case")
Values = Mapping[str, Hashable]
Pair = tuple[str, Hashable, str, Hashable]


def pairs_of(values: Values) -> frozenset[Pair]:
    """Every two of a case's values, each with the name of what it is a value of."""
    return frozenset((a, values[a], b, values[b]) for a, b in combinations(sorted(values), 2))


def cover(
    cases: Sequence[Case],
    values: Callable[[Case], Values],
    cost: Callable[[Case], float] = lambda case: 1.0,
) -> list[Case]:
    """Some of the cases, with every pair that occurs in any; in their old order.

    Always the one that adds most for its cost; then those are dropped that others made needless.
    """
    held = [pairs_of(values(case)) for case in cases]
    missing, chosen = frozenset().union(*held), []
    while missing:
        best = max(range(len(cases)), key=lambda i: len(held[i] & missing) / cost(cases[i]))
        chosen.append(best)
        missing -= held[best]
    for i in sorted(chosen, key=lambda i: -cost(cases[i])):
        rest = [j for j in chosen if j != i]
        if held[i] <= frozenset().union(*(held[j] for j in rest)):
            chosen = rest
    return [cases[i] for i in sorted(chosen)]


def to_run(
    cases: Sequence[Case],
    values: Callable[[Case], Values],
    cost: Callable[[Case], float] = lambda case: 1.0,
) -> list[Case]:
    """All cases where LAB_EXHAUSTIVE is set, else those of `cover`."""
    return list(cases) if EXHAUSTIVE else cover(cases, values, cost)
