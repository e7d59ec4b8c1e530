"""Seconds of a pipeline whose stages are not alike: played through where that is quick, else by
closed forms.

The closed forms are the ones of `pipeline.py`, with the slowest rank setting the pace and every
stage passed once to fill and once to drain. For unequal stages only GPipe's is exact; the tests
hold the others to within a sixth of the simulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...config import Schedule
from ...layout.schedule import make_schedule, refuse_schedule
from .bubbles import bubble_seconds_closed
from .pipeline import simulate

_QUICK = 2_000  # actions that play in about 3 ms


def pipeline_seconds(
    name: Schedule,
    ranks: int,
    micro_batches: int,
    forward: Sequence[float],
    backward: Sequence[float],
    weight: Sequence[float],
    message_seconds: float = 0.0,
    play: bool = True,
) -> float:
    """Seconds from the first forward to the last backward of all `ranks`; durations are of one
    micro-batch on each virtual stage.

    `play` False never simulates (planners ask for thousands). Raises ConfigError for a schedule
    that cannot be made.
    """
    p, m, v = ranks, micro_batches, len(forward) // ranks
    refuse_schedule(name, p, m, v)
    if p == 1:
        return m * (sum(forward) + sum(backward) + sum(weight))
    alike = all(max(d) - min(d) <= 1e-9 * max(d) for d in (forward, backward, weight))
    if alike:
        bubble = bubble_seconds_closed(
            name, p, m, forward[0], backward[0], weight[0], v, message_seconds
        )
        if bubble is not None:
            return v * m * (forward[0] + backward[0] + weight[0]) + bubble
    if play and 3 * m * v * p <= _QUICK:
        return simulate(
            make_schedule(name, p, m, v), forward, backward, weight, message_seconds
        ).seconds
    return _closed(name, p, m, v, forward, backward, weight, message_seconds)


def _closed(
    name: Schedule,
    p: int,
    m: int,
    v: int,
    forward: Sequence[float],
    backward: Sequence[float],
    weight: Sequence[float],
    c: float,
) -> float:
    both = [b + w for b, w in zip(backward, weight, strict=True)]
    if name == "gpipe":
        return (
            sum(forward)
            + sum(both)
            + (m - 1) * (max(*forward, c) + max(*both, c))
            + 2 * (p - 1) * c
        )
    rounds, rest = divmod(m - 1, p)
    if name == "1f1b":
        pace = max(f + b for f, b in zip(forward, both, strict=True))
        return (
            sum(forward)
            + sum(both)
            + (m - 1) * pace
            + 2 * c * ((p - 1) * (1 + rounds) + max(0, rest - 1))
        )
    busy = [sum(forward[r::p]) + sum(both[r::p]) for r in range(p)]
    slowest = max(range(p), key=busy.__getitem__)
    if name == "interleaved":
        fill = sum(busy[r] / v for r in range(p) if r != slowest)
        return m * busy[slowest] + fill + 2 * c * (v * p - 1)
    fill = (
        sum(f + b for f, b in zip(forward, backward, strict=True))
        - forward[slowest]
        - backward[slowest]
    )
    shortest = min(forward[slowest], backward[slowest], weight[slowest])
    return (
        m * busy[slowest]
        + max(0.0, fill - (min(m, p) - 1) * shortest)
        + 2 * c * (p - 1 + min(max(m - 2, 0), p - 1))
    )
