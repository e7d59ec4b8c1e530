"""An examination, case by case: the first one that fails ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .ranks import Observation, observe
from .verdict import Failure

Verdict = Callable[[Any, int, list[Any] | None, Observation], Failure | None]


def first_failure(body: Callable[..., None], answer: Any, cases: Sequence[Any], verdict: Verdict, *args: Any, told: int = 1) -> Failure | list[tuple[Any, Any]]:
    """Run body(answer, cases, *args) on real ranks and judge what they saw; cases with the same number of `ranks` (or none: 1) share a launch.

    A case tells its facts `told` times, the n-th time of case c as number told·c + n. verdict(case, n, facts, seen) says what
    is wrong with them; `facts` are by rank, None if some rank did not come that far. Returns the first failure, or if there is
    none every case with its facts, as (case, facts[n][rank]).
    """
    passed = []
    for ranks in dict.fromkeys(_ranks(case) for case in cases):
        mine = [case for case in cases if _ranks(case) == ranks]
        seen = observe(body, ranks, answer, mine, *args)
        for number, case in enumerate(mine):
            facts = [seen.complete(told * number + n) for n in range(told)]
            failure = next((failure for n, by_rank in enumerate(facts) if (failure := verdict(case, n, by_rank, seen))), None)
            if failure:
                return failure
            passed.append((case, facts))
    return passed


def _ranks(case: Any) -> int:
    return getattr(case, "ranks", 1)
