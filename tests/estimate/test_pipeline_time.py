"""Schedules on the clock: a few by hand, the laws that hold for all, and the closed forms against
the simulation."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils.config import ConfigError
from lab_utils.estimate.time.bubbles import (
    bubble_over_ideal,
    bubble_over_total,
    bubble_seconds_closed,
    ideal_seconds,
    step_seconds,
)
from lab_utils.estimate.time.pipeline import simulate
from lab_utils.layout.schedule import Action, PipelineSchedule, make_schedule
from lab_utils.layout.schedule_check import ScheduleError, in_flight

NAMES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
# forward, backward, weights: whole seconds, so sums are exact
DURATIONS = [(1, 1, 1), (1, 2, 0), (3, 1, 2), (2, 4, 1), (2, 5, 2), (5, 2, 3), (1, 1, 4)]


def grid(name: str) -> Iterator[tuple[int, int, int]]:
    """p 1…8, m 1…17 and v 1…4 where the schedule exists."""
    for p in range(1, 9):
        for m in range(1, 18):
            if name != "interleaved":
                yield p, m, 1
            elif m % p == 0:
                yield from ((p, m, v) for v in (2, 3, 4))


def times(
    schedule: PipelineSchedule, *durations: float, **more: float
) -> list[list[tuple[str, float, float]]]:
    lanes: list[list[tuple[str, float, float]]] = [[] for _ in schedule]
    for span in simulate(schedule, *durations, **more).spans:
        lanes[span.rank].append((f"{span.action.kind}{span.action.micro}", span.start, span.end))
    return lanes


def test_by_hand_two_ranks_that_are_not_equally_fast():
    first, last = times(make_schedule("1f1b", 2, 2), [1, 2], [3, 4])
    assert first == [("F0", 0, 1), ("F1", 1, 2), ("B0", 7, 10), ("B1", 13, 16)]
    assert last == [("F0", 1, 3), ("B0", 3, 7), ("F1", 7, 9), ("B1", 9, 13)]
    timeline = simulate(make_schedule("1f1b", 2, 2), [1, 2], [3, 4])
    assert timeline.seconds == 16
    assert timeline.busy_seconds == (8, 12)
    assert timeline.bubble_seconds == (8, 4)
    assert timeline.bubble_over_ideal == pytest.approx(12 / 20)
    assert timeline.bubble_over_total == pytest.approx(12 / 32)


def test_by_hand_messages_follow_each_other_on_the_wire():
    first, last = times(make_schedule("gpipe", 2, 3), 1, 2, message_seconds=3)
    assert first == [
        ("F0", 0, 1),
        ("F1", 1, 2),
        ("F2", 2, 3),
        ("B0", 16, 18),
        ("B1", 19, 21),
        ("B2", 22, 24),
    ]
    assert last == [
        ("F0", 4, 5),
        ("F1", 7, 8),
        ("F2", 10, 11),
        ("B0", 11, 13),
        ("B1", 13, 15),
        ("B2", 15, 17),
    ]


def test_by_hand_nothing_travels_between_chunks_of_one_rank():
    timeline = simulate(make_schedule("interleaved", 1, 1, 2), [1, 2], [3, 4], message_seconds=100)
    assert [(span.action, span.start, span.end) for span in timeline.spans] == [
        (Action("F", 0, 0), 0, 1),
        (Action("F", 0, 1), 1, 3),
        (Action("B", 0, 1), 3, 7),
        (Action("B", 0, 0), 7, 10),
    ]


def test_without_w_the_backward_does_the_weights_too():
    split, whole = make_schedule("zero-bubble", 3, 5), make_schedule("1f1b", 3, 5)
    assert simulate(whole, 1, 2, 3).seconds == simulate(whole, 1, 5).seconds
    assert (
        simulate(whole, 1, 2, 3).busy_seconds
        == simulate(split, 1, 2, 3).busy_seconds
        == (30, 30, 30)
    )


@given(st.sampled_from(NAMES), st.integers(1, 5), st.integers(1, 4), st.data())
def test_every_action_starts_as_soon_as_it_can(name, p, groups, data):
    """Not before its rank is free and its message has come, and not later; durations differ from
    stage to stage."""
    v = 2 if name == "interleaved" else 1
    schedule, second = make_schedule(name, p, groups * p, v), st.integers(0, 9)
    forward, backward, weight = (
        data.draw(st.lists(second, min_size=p * v, max_size=p * v)) for _ in range(3)
    )
    message = data.draw(second)
    spans = {
        span.action: span for span in simulate(schedule, forward, backward, weight, message).spans
    }
    arrives = {}
    for kind, ahead in (("F", 1), ("B", -1)):
        for rank, actions in enumerate(schedule):
            wire = 0
            for action in (a for a in actions if a.kind == kind and 0 <= a.stage + ahead < p * v):
                wire = max(wire, spans[action].end) + message if p > 1 else spans[action].end
                arrives[action._replace(stage=action.stage + ahead)] = wire
            assert [spans[a].rank for a in actions] == [rank] * len(actions)
    for actions in schedule:
        free = 0
        for action in actions:
            own = {"B": "F", "W": "B"}.get(action.kind)
            there = max(arrives.get(action, 0), spans[action._replace(kind=own)].end if own else 0)
            assert spans[action].start == max(free, there)
            free = spans[action].end
            takes = {"F": forward, "B": backward, "W": weight}[action.kind][action.stage]
            takes += weight[action.stage] if action.kind == "B" and name != "zero-bubble" else 0
            assert free - spans[action].start == takes


@given(st.sampled_from(NAMES), st.integers(1, 6), st.integers(1, 4), *[st.floats(1e-6, 10)] * 4)
def test_bubbles_are_what_is_left(name, p, groups, forward, backward, weight, message):
    timeline = simulate(
        make_schedule(name, p, groups * p, 2 if name == "interleaved" else 1),
        forward,
        backward,
        weight,
        message,
    )
    assert min(timeline.bubble_seconds) >= 0
    assert all(
        busy + bubble == pytest.approx(timeline.seconds)
        for busy, bubble in zip(timeline.busy_seconds, timeline.bubble_seconds, strict=True)
    )
    assert timeline.bubble_over_total == pytest.approx(
        timeline.bubble_over_ideal / (1 + timeline.bubble_over_ideal)
    )
    assert 0 <= timeline.bubble_over_total < 1


@pytest.mark.parametrize("name", NAMES)
def test_closed_form_without_messages(name):
    for p, m, v in grid(name):
        schedule = make_schedule(name, p, m, v)
        for durations in DURATIONS:
            timeline = simulate(schedule, *durations)
            assert set(timeline.bubble_seconds) == {
                bubble_seconds_closed(name, p, m, *durations, v)
            }
            assert set(timeline.busy_seconds) == {ideal_seconds(m, *durations, v)}
            assert timeline.seconds == step_seconds(name, p, m, *durations, v)
        assert timeline.bubble_over_ideal == pytest.approx(
            bubble_over_ideal(name, p, m, *durations, v)
        )
        assert timeline.bubble_over_total == pytest.approx(
            bubble_over_total(name, p, m, *durations, v)
        )


@pytest.mark.parametrize("name", NAMES)
def test_closed_form_with_messages(name):
    known = 0
    for p, m, v in grid(name):
        schedule = make_schedule(name, p, m, v)
        for durations in [*DURATIONS, (4, 3, 2)]:
            for message in (0.5, 1, 2, 6):
                closed = bubble_seconds_closed(name, p, m, *durations, v, message)
                if closed is not None:
                    known += p > 1
                    assert set(simulate(schedule, *durations, message).bubble_seconds) == {closed}
    assert known >= 500


def test_where_no_form_is_known_the_plan_is_played():
    for arguments in (
        ("1f1b", 4, 8, 1, 2, 0, 1, 4),
        ("interleaved", 4, 8, 1, 2, 0, 2, 1.5),
        ("zero-bubble", 4, 8, 2, 2, 1, 1, 1),
        ("zero-bubble", 4, 8, 2, 2, 0, 1, 1),
    ):
        name, p, m, forward, backward, weight, v, message = arguments
        assert bubble_seconds_closed(*arguments) is None
        assert (
            step_seconds(*arguments)
            == simulate(make_schedule(name, p, m, v), forward, backward, weight, message).seconds
        )
    with pytest.raises(ConfigError, match="8 or 12"):
        step_seconds("interleaved", 4, 10, 1, 2, 0, 2)


@pytest.mark.parametrize(("p", "m"), [(4, 8), (8, 8), (8, 64), (64, 512)])
def test_ratios_of_the_papers(p, m):
    """SC21, sections 2.2.1 and 2.2.2: (p−1)/m of the ideal time, and 1/v of that; Qi et al. 2023: a
    third with F = B = W."""
    for name in ("gpipe", "1f1b"):
        assert bubble_over_ideal(name, p, m, 1, 2) == pytest.approx((p - 1) / m)
        assert bubble_over_total(name, p, m, 1, 2) == pytest.approx((p - 1) / (m + p - 1))
    for v in (2, 4):
        assert bubble_over_ideal(
            "interleaved", p, m, 1 / v, 2 / v, virtual_stages=v
        ) == pytest.approx((p - 1) / (v * m))
    assert bubble_over_ideal("zero-bubble", p, m, 1, 1, 1) == pytest.approx((p - 1) / (3 * m))


@pytest.mark.parametrize(
    ("forward", "backward", "weight"), [(1, 1, 1), (3, 3, 2), (4, 5, 3), (7, 8, 7)]
)
def test_zero_bubble_keeps_the_papers_two_promises(forward, backward, weight):
    """ZB-H1, section 2.3: bubbles of (p−1)(F+B−W) where 1F1B has (p−1)(F+B+W), and no rank holds
    more than 1F1B's first."""
    for p in range(1, 9):
        for m in range(p, 18):
            split, whole = make_schedule("zero-bubble", p, m), make_schedule("1f1b", p, m)
            assert set(simulate(split, forward, backward, weight).bubble_seconds) == {
                (p - 1) * (forward + backward - weight)
            }
            assert set(simulate(whole, forward, backward, weight).bubble_seconds) == {
                (p - 1) * (forward + backward + weight)
            }
            assert max(in_flight(split, until="W")) <= max(in_flight(whole)) == p


def test_what_cannot_be_played_is_refused():
    schedule = make_schedule("1f1b", 2, 2)
    with pytest.raises(ValueError, match=r"3 durations were given for 2 virtual stages"):
        simulate(schedule, [1, 2, 3], 1)
    with pytest.raises(ScheduleError, match="deadlock"):
        simulate(
            (
                make_schedule("1f1b", 1, 2)[0],
                tuple(action._replace(stage=1) for action in make_schedule("gpipe", 1, 2)[0]),
            ),
            1,
            1,
        )


def test_a_step_of_64_ranks_and_512_micro_batches():
    """Processor time, the best of five: a busy machine slows some of them, never all."""
    schedule, seconds = make_schedule("1f1b", 64, 512), float("inf")
    for _ in range(5):
        began = time.process_time()
        timeline = simulate(schedule, 1, 2)
        seconds = min(seconds, time.process_time() - began)
    assert timeline.seconds == 3 * (512 + 63)
    assert seconds < 0.2
