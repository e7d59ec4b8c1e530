"""Hidden checks of lab 03: the criteria of the visible ones, on batches, segments, chains and budgets drawn from a seed.

`run(namespace, seed)` gives one Result for each exercise; an answer that is missing from the namespace is None in it.
An instructor's own checks have the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from lab_utils.course.checks.lab03 import accumulation, plans, segments
from lab_utils.course.checks.lab03.plans_run import frontier
from lab_utils.course.checks.verdict import Result


def run(namespace: Mapping[str, Any], seed: int) -> dict[str, Result | None]:
    """Judge `accumulate`, `Segment` and `plan_checkpoints` of a learner's namespace on cases drawn from `seed`."""
    draw = Random(seed)
    examinations = {
        "accumulate": (accumulation, accumulation_cases(draw)),
        "Segment": (segments, segment_cases(draw)),
        "plan_checkpoints": (plans, plan_cases(draw)),
    }
    results: dict[str, Result | None] = {}
    for name, (exercise, cases) in examinations.items():
        answer = namespace.get(name)
        results[name] = None if answer is None else Result.of(f"hidden {name}", exercise.examine(answer, cases), answer, exercise.HINTS)
    return results


def counts(draw: Random, n: int) -> tuple[int, ...]:
    """Counted tokens of n micro-batches, no two neighbours alike."""
    found = [draw.randint(1, 16)]
    while len(found) < n:
        found.append(draw.choice([c for c in range(1, 17) if abs(c - found[-1]) > 2]))
    return tuple(found)


def accumulation_cases(draw: Random) -> list[accumulation.Case]:
    """Uneven counts first, then a partial group, a micro-batch that counts for nothing, and a group larger than all there is."""
    group = draw.randint(2, 4)
    full, partial, little = counts(draw, 2 * group), counts(draw, 2 * group + draw.randint(1, group - 1)), counts(draw, draw.randint(2, 4))
    empty = list(counts(draw, group + 2))
    empty[draw.randrange(group)] = 0
    seeds = [draw.randint(1, 10**6) for _ in range(4)]
    return [
        accumulation.Case(full, group, seed=seeds[0]), accumulation.Case(partial, group, seed=seeds[1]),
        accumulation.Case(tuple(empty), group, "empty", seed=seeds[2]), accumulation.Case(little, len(little) + draw.randint(1, 5), "any-group", seed=seeds[3]),
    ]  # fmt: skip


def segment_cases(draw: Random) -> list[segments.Case]:
    """A plain segment, one with dropout, then one case for each thing that is easily forgotten, in any order."""
    def case(criterion: str | None = None, **kind: Any) -> segments.Case:
        inner = tuple(draw.choice([64, 80, 96, 128]) for _ in range(draw.randint(2, 4)))
        return segments.Case(inner, criterion, seed=draw.randint(1, 10**6), **kind)

    special = [
        case("again", again=True), case("twice", passes=draw.randint(2, 3)), case("arguments", arguments=True),
        case("input-without-gradient", needs_gradient=False), case("frozen", frozen=(draw.randint(0, 1),)),
        case("nested", dropout=draw.choice([0.1, 0.3]), nested=True), case("keep-as", keep_as=draw.choice(["bfloat16", "float16"])),
    ]  # fmt: skip
    return [case(), case(dropout=draw.choice([0.1, 0.3, 0.5])), *draw.sample(special, len(special))]


def plan_cases(draw: Random) -> list[plans.Case]:
    """For each of two chains: budgets along what its plans make possible, tight ones first; then all of it, and less than the least."""
    cases = []
    for layers in (draw.randint(5, 6), draw.randint(6, 7)):
        widths, inner = (tuple(8 * draw.randint(1, most) for _ in range(n)) for most, n in ((4, layers + 1), (7, layers)))
        model = plans.Model(widths, inner, draw.randint(1, 10**6))
        peaks = [peak for peak, _, _ in frontier(model)]
        cases += [plans.Case(model, peaks[0] + draw.choice([0, 4])), plans.Case(model, draw.choice(peaks[1:-1]) + draw.choice([0, 4]))]
    return [*cases, plans.Case(model, peaks[-1], "no-need"), plans.Case(model, peaks[0] - 4, "nothing-fits")]
