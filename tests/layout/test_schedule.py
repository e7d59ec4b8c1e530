"""Schedules: three worked out by hand, and what must hold for all of them on a grid of sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import i18n
from lab_utils.config import ConfigError
from lab_utils.layout.schedule import Action, PipelineSchedule, make_schedule, splits_backward
from lab_utils.layout.schedule_check import check_schedule, in_flight

NAMES = ("gpipe", "1f1b", "interleaved", "zero-bubble")


def grid(name: str) -> Iterator[tuple[int, int, int, PipelineSchedule]]:
    """Ranks, micro-batches, virtual stages and the schedule: p 1…8, m 1…17, v 1…4 where there is
    one."""
    for p in range(1, 9):
        for m in range(1, 18):
            for v in (2, 3, 4) if name == "interleaved" else (1,):
                if name != "interleaved" or m % p == 0:
                    yield p, m, v, make_schedule(name, p, m, v)


def short(actions: tuple[Action, ...], ranks: int) -> str:
    """F0 F1 …; with several chunks the chunk follows as a letter: F0a is micro-batch 0 on the
    rank's first chunk."""
    chunks = len({action.stage for action in actions})
    return " ".join(
        f"{kind}{micro}{'abcd'[stage // ranks] if chunks > 1 else ''}"
        for kind, micro, stage in actions
    )


def test_by_hand_four_ranks():
    ranks = [short(actions, 4) for actions in make_schedule("1f1b", 4, 6)]
    assert ranks == [
        "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5",
        "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5",
        "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5",
    ]
    assert {short(actions, 4) for actions in make_schedule("gpipe", 4, 3)} == {"F0 F1 F2 B0 B1 B2"}


def test_by_hand_zero_bubble():
    first, middle, last = (short(actions, 3) for actions in make_schedule("zero-bubble", 3, 4))
    assert first == "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3"
    assert middle == "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3"
    assert last == "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3"


def test_by_hand_interleaved():
    first, last = (short(actions, 2) for actions in make_schedule("interleaved", 2, 4, 2))
    assert first == "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a"
    assert last == "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a"
    assert {action.stage for action in make_schedule("interleaved", 2, 4, 2)[1]} == {1, 3}


def test_one_rank():
    assert [
        short(make_schedule(name, 1, 3)[0], 1) for name in ("gpipe", "1f1b", "zero-bubble")
    ] == ["F0 F1 F2 B0 B1 B2", "F0 B0 F1 B1 F2 B2", "F0 B0 W0 F1 B1 W1 F2 B2 W2"]
    assert short(make_schedule("interleaved", 1, 2, 2)[0], 1) == "F0a F0b B0b F1a B0a F1b B1b B1a"


@pytest.mark.parametrize("name", NAMES)
def test_all_work_and_each_action_is_there_once(name):
    for p, m, v, schedule in grid(name):
        check_schedule(schedule)
        kinds = "FBW" if name == "zero-bubble" else "FB"
        assert splits_backward(schedule) == ("W" in kinds)
        for rank, actions in enumerate(schedule):
            assert Counter(actions) == Counter(
                Action(kind, i, chunk * p + rank)
                for kind in kinds
                for i in range(m)
                for chunk in range(v)
            )


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_summed_in_the_order_of_micro_batches(name):
    for p, m, v, schedule in grid(name):
        for stage in range(p * v):
            for kind in "BW" if splits_backward(schedule) else "B":
                assert [
                    a.micro for a in schedule[stage % p] if (a.kind, a.stage) == (kind, stage)
                ] == list(range(m))


@pytest.mark.parametrize("name", NAMES)
def test_activations_in_flight(name):
    """GPipe: all. 1F1B: one for each rank from here to the last. Interleaved: vp + p − 1 chunks on
    the first rank, the 1 + (p−1)/(pv) of its layers in Korthikanti et al. 2022, section 4.2.3.
    ZB-H1: no rank above 1F1B's first, W's included."""
    for p, m, v, schedule in grid(name):
        held = {
            "gpipe": lambda r, m=m: m,
            "1f1b": lambda r, m=m, p=p: min(m, p - r),
            "zero-bubble": lambda r, m=m, p=p: min(m, p - r),
            "interleaved": lambda r, m=m, p=p, v=v: min(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1),
        }[name]
        assert in_flight(schedule) == [held(r) for r in range(p)]
        until_weights = [min(m, p)] * p if name == "zero-bubble" else in_flight(schedule)
        assert in_flight(schedule, until="W") == until_weights
    assert in_flight(make_schedule("interleaved", 4, 12, 3))[0] == 3 * 4 + 4 - 1


@given(st.sampled_from(NAMES), st.integers(1, 24), st.integers(1, 6), st.integers(1, 4))
def test_larger_ones_work_too(name, p, groups, v):
    many = name == "interleaved"
    check_schedule(make_schedule(name, p, groups * p if many else groups * 7, v + 1 if many else 1))


@pytest.mark.parametrize(
    ("arguments", "words", "zh"),
    [
        (
            ("interleaved", 4, 10, 2),
            (
                "groups of --pp 4, and 10 is no multiple of it; nearest that works: 8 or 12"
                " micro-batches"
            ),
            "最接近的可用值：8 或 12",
        ),
        (("interleaved", 4, 3, 2), "nearest that works: 4 micro-batches", "最接近的可用值：4。"),
        (("interleaved", 4, 8, 1), "--virtual-stages 2 or more", "需要 --virtual-stages 2 或更多"),
        (
            ("1f1b", 4, 8, 2),
            "--virtual-stages 1, or --schedule interleaved",
            "改用 --schedule interleaved",
        ),
        (
            ("zero-bubble", 4, 8, 3),
            "--virtual-stages 1, or --schedule interleaved",
            "改用 --schedule interleaved",
        ),
        (
            ("dualpipe", 4, 8, 1),
            "choose gpipe, 1f1b, interleaved, zero-bubble",
            "可选：gpipe、1f1b、interleaved、zero-bubble",
        ),
        (
            ("gpipe", 0, 8, 1),
            "whole number of ranks from 1 up, not 0",
            "进程数应为不小于 1 的整数，而不是 0",
        ),
        (("gpipe", 2, -1, 1), "whole number of micro-batches from 1 up, not -1", "微批次数应为"),
        (("gpipe", 2, 2.5, 1), "whole number of micro-batches from 1 up, not 2.5", "微批次数应为"),
    ],
)
def test_refusals(arguments, words, zh, monkeypatch):
    for lang, expected in (("en", words), ("zh", zh)):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ConfigError) as refusal:
            make_schedule(*arguments)
        assert expected in str(refusal.value)
