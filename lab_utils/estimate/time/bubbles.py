"""Bubbles and seconds of a pipelined step in closed form, for virtual stages that take equally
long. Which time a bubble is divided by, every name says (pipeline.py)."""

from __future__ import annotations

from ...config import Schedule
from ...layout.schedule import make_schedule, refuse_schedule
from .pipeline import simulate


def bubble_seconds_closed(
    name: Schedule,
    ranks: int,
    micro_batches: int,
    forward_seconds: float,
    backward_seconds: float,
    weight_seconds: float = 0,
    virtual_stages: int = 1,
    message_seconds: float = 0,
) -> float | None:
    """What `simulate` finds as every rank's bubble where all virtual stages take as long; None
    where no form is known.

    F, B and W are the durations of one micro-batch on one *virtual* stage (p ranks, m
    micro-batches, v stages a rank, c seconds a message). Without messages: (p−1)(F+B+W) for gpipe,
    1f1b and interleaved (SC21, section 2.2), and for zero-bubble (p−1)(F+B) − (min(m, p) −
    1)·min(F, B, W), which for m ≥ p and W the shortest is the (p−1)(F+B−W) of Qi et al. 2023,
    section 2.3. The rest is ours, and holds because the tests compare it with the simulation on a
    grid: the terms in c, for gpipe always, for 1f1b while c ≤ F+B+W, for interleaved while c ≤
    min(F, B+W), for zero-bubble while 2c ≤ W ≤ min(F, B). 1F1B alone pays for messages with every p
    micro-batches anew. Raises ConfigError for a schedule that cannot be made.
    """
    refuse_schedule(name, ranks, micro_batches, virtual_stages)
    p, m, v, c, behind = ranks, micro_batches, virtual_stages, message_seconds, ranks - 1
    forward, backward = forward_seconds, backward_seconds + weight_seconds
    if behind == 0:
        return 0
    if name == "gpipe":  # a wire slower than the ranks sets the pace
        return behind * (forward + backward + 2 * c) + (m - 1) * (
            max(0, c - forward) + max(0, c - backward)
        )
    if name == "1f1b":
        rounds, rest = divmod(m - 1, p)
        return (
            behind * (forward + backward) + 2 * c * (behind * (1 + rounds) + max(0, rest - 1))
            if c <= forward + backward
            else None
        )
    if name == "interleaved":
        return (
            behind * (forward + backward) + 2 * c * (v * p - 1)
            if c <= min(forward, backward)
            else None
        )
    shortest = min(forward_seconds, backward_seconds, weight_seconds)
    if c and not 2 * c <= weight_seconds == shortest:
        return None
    return (
        behind * (forward_seconds + backward_seconds)
        - (min(m, p) - 1) * shortest
        + 2 * c * (behind + min(max(m - 2, 0), behind))
    )


def ideal_seconds(
    micro_batches: int,
    forward_seconds: float,
    backward_seconds: float,
    weight_seconds: float = 0,
    virtual_stages: int = 1,
) -> float:
    """A rank's compute without any bubble: v·m times the forward and the whole backward of one
    virtual stage."""
    return virtual_stages * micro_batches * (forward_seconds + backward_seconds + weight_seconds)


def step_seconds(
    name: Schedule,
    ranks: int,
    micro_batches: int,
    forward_seconds: float,
    backward_seconds: float,
    weight_seconds: float = 0,
    virtual_stages: int = 1,
    message_seconds: float = 0,
) -> float:
    """`simulate(…).seconds` for equal virtual stages: by the closed form where there is one, else
    by playing the schedule.

    Takes what `bubble_seconds_closed` takes, and raises what it raises.
    """
    durations = (forward_seconds, backward_seconds, weight_seconds)
    bubble = bubble_seconds_closed(
        name, ranks, micro_batches, *durations, virtual_stages, message_seconds
    )
    if bubble is not None:
        return ideal_seconds(micro_batches, *durations, virtual_stages) + bubble
    return simulate(
        make_schedule(name, ranks, micro_batches, virtual_stages), *durations, message_seconds
    ).seconds


def bubble_over_ideal(
    name: Schedule,
    ranks: int,
    micro_batches: int,
    forward_seconds: float,
    backward_seconds: float,
    weight_seconds: float = 0,
    virtual_stages: int = 1,
    message_seconds: float = 0,
) -> float:
    """`Timeline.bubble_over_ideal` for equal virtual stages: (p−1)/m for gpipe and 1f1b,
    (p−1)/(v·m) for interleaved."""
    durations = (forward_seconds, backward_seconds, weight_seconds, virtual_stages)
    return (
        step_seconds(name, ranks, micro_batches, *durations, message_seconds)
        / ideal_seconds(micro_batches, *durations)
        - 1
    )


def bubble_over_total(
    name: Schedule,
    ranks: int,
    micro_batches: int,
    forward_seconds: float,
    backward_seconds: float,
    weight_seconds: float = 0,
    virtual_stages: int = 1,
    message_seconds: float = 0,
) -> float:
    """`Timeline.bubble_over_total` for equal virtual stages: (p−1)/(m+p−1) for gpipe and 1f1b."""
    durations = (forward_seconds, backward_seconds, weight_seconds, virtual_stages)
    return 1 - ideal_seconds(micro_batches, *durations) / step_seconds(
        name, ranks, micro_batches, *durations, message_seconds
    )
