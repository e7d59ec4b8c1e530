"""The check refuses planted mistakes with the fitting sentence, and agrees with ranks that really
pass messages."""

from __future__ import annotations

from collections import defaultdict, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab_utils import i18n
from lab_utils.layout.schedule import Action, PipelineSchedule, make_schedule
from lab_utils.layout.schedule_check import ScheduleError, check_schedule, in_flight


def schedule_of(*ranks: str) -> PipelineSchedule:
    """From "F0 F1@2 …": micro-batch, then @stage where it is not the rank's own number."""

    def action(word: str, rank: int) -> Action:
        micro, _, stage = word[1:].partition("@")
        return Action(word[0], int(micro), int(stage or rank))

    return tuple(
        tuple(action(word, rank) for word in actions.split()) for rank, actions in enumerate(ranks)
    )


PLANTED = {
    "missing backward": (
        ("F0 F1 B0 B1", "F0 B0 F1"),
        "the backward of micro-batch 1 on stage 1 is missing on rank 1",
        "rank 1 上缺少阶段 1 上微批次 1 的反向",
    ),
    "missing forward": (
        ("F0 B0 B1", "F0 B0 F1 B1"),
        "the forward of micro-batch 1 on stage 0 is missing on rank 0",
        "缺少阶段 0 上微批次 1 的前向",
    ),
    "missing weight gradient": (
        ("F0 B0 W0", "F0 B0"),
        "the weight gradient of micro-batch 0 on stage 1 is missing",
        "缺少阶段 1 上微批次 0 的权重梯度",
    ),
    "missing rank": (
        ("F0 B0", ""),
        "the forward of micro-batch 0 on stage 1 is missing on rank 1",
        "缺少阶段 1 上微批次 0 的前向",
    ),
    "missing chunk": (
        ("F0 F0@2 B0@2 B0", "F0 B0"),
        "the forward of micro-batch 0 on stage 3 is missing on rank 1",
        "缺少阶段 3 上微批次 0 的前向",
    ),
    "nothing": (("", ""), "the schedule holds no action", "没有任何动作"),
    "twice": (
        ("F0 F0 B0", "F0 B0"),
        "the forward of micro-batch 0 on stage 0 stands 2 times on rank 0",
        "出现了 2 次",
    ),
    "wrong rank": (
        ("F0 B0", "F0@0 B0"),
        "the forward of micro-batch 0 on stage 0 stands on rank 1, but stage 0 lives on rank 0",
        "而阶段 0 属于 rank 0",
    ),
    "no such kind": (
        ("F0 B0 X0", "F0 B0"),
        "rank 0 holds ('X', 0, 0), which is no action",
        "不是合法动作",
    ),
    "swapped": (
        ("F0 B0", "B0 F0"),
        (
            "on rank 1, the backward of micro-batch 0 on stage 1 stands before the forward of"
            " micro-batch 0 on stage 1"
        ),
        "rank 1 上，阶段 1 上微批次 0 的反向排在了阶段 1 上微批次 0 的前向之前",
    ),
    "weights first": (
        ("F0 B0 W0", "F0 W0 B0"),
        "on rank 1, the weight gradient of micro-batch 0 on stage 1 stands before the backward",
        "权重梯度排在了",
    ),
    "circular wait": (
        ("F0 B0 F1 B1", "F0 F1 B0 B1"),
        (
            "deadlock: rank 0 is at the backward of micro-batch 0 on stage 0 and waits for the"
            " backward of micro-batch 0 on stage 1 on rank 1; rank 1 is at the forward of"
            " micro-batch 1 on stage 1 and waits for the forward of micro-batch 1 on stage 0 on"
            " rank 0."
        ),
        (
            "死锁：rank 0 停在阶段 0 上微批次 0 的反向，在等 rank 1 的阶段 1 上微批次 0"
            " 的反向；rank 1 停在阶段 1 上微批次 1 的前向，在等"
        ),
    ),
    "chunks the wrong way": (
        ("F0@2 F0 B0@2 B0", "F0@3 F0@1 B0@3 B0@1"),
        "deadlock: rank 0 is at the forward of micro-batch 0 on stage 2",
        "死锁：",
    ),
    "one rank, chunks the wrong way": (
        ("F0@1 F0 B0@1 B0",),
        "deadlock: rank 0 is at the forward of micro-batch 0 on stage 1",
        "死锁：",
    ),
    "activations out of order": (
        ("F0 F1 B0 B1", "F1 F0 B0 B1"),
        (
            "rank 0 sends rank 1 the activations of the forward of micro-batch 0 on stage 0 where"
            " it takes those of the forward of micro-batch 1 on stage 0"
        ),
        "下一份激活值来自阶段 0 上微批次 0 的前向，而对方此时要取的是阶段 0 上微批次 1 的前向的",
    ),
    "gradients out of order": (
        ("F0 F1 B0 B1", "F0 F1 B1 B0"),
        "rank 1 sends rank 0 the gradients of the backward of micro-batch 1 on stage 1",
        "rank 1 发给 rank 0 的下一份梯度来自阶段 1 上微批次 1 的反向",
    ),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes(mistake, monkeypatch):
    ranks, en, zh = PLANTED[mistake]
    for lang, words in (("en", en), ("zh", zh)):
        monkeypatch.setattr(i18n, "_chosen", lang)
        with pytest.raises(ScheduleError) as refusal:
            check_schedule(schedule_of(*ranks))
        assert words in str(refusal.value)


def test_schedules_of_ones_own_pass():
    # backwards from the last to the first
    check_schedule(schedule_of("F0 F1 B1 B0", "F0 F1 B1 B0"))
    # weight gradients in any order
    check_schedule(schedule_of("F0 F1 B0 W0 B1 W1", "F0 B0 F1 B1 W1 W0"))
    check_schedule(schedule_of("F0 F0@2 B0@2 B0", "F0@1 F0@3 B0@3 B0@1"))


def test_a_deadlock_of_many_ranks_names_only_the_circle():
    schedule = list(make_schedule("1f1b", 4, 4))
    schedule[2], schedule[3] = schedule_of(
        "", "", "F0 B0 F1 B1 F2 B2 F3 B3", "F0 F1 B0 B1 F2 B2 F3 B3"
    )[2:]
    with pytest.raises(
        ScheduleError, match=r"^deadlock: rank 2 .* on rank 3; rank 3 .* on rank 2\.$"
    ):
        check_schedule(tuple(schedule))


def test_in_flight_by_hand():
    schedule = schedule_of("F0 F1 B0 F2 B1 B2 W0 W1 W2", "F0 B0 W0 F1 B1 W1 F2 B2 W2")
    assert in_flight(schedule) == [2, 1]
    assert in_flight(schedule, until="W") == [3, 1]
    assert in_flight(schedule_of("F0 F1 B0 B1"), until="W") == [2]


def messages_pass(schedule: PipelineSchedule) -> bool:
    """Ranks with mailboxes, one for each sender, receiver and kind; each message says what it is
    of, and the reader looks."""
    stages = 1 + max(action.stage for actions in schedule for action in actions)
    mailbox, at, moved = defaultdict(deque), [0] * len(schedule), True
    while moved:
        moved = False
        for rank, actions in enumerate(schedule):
            while at[rank] < len(actions):
                kind, micro, stage = actions[at[rank]]
                ahead = 1 if kind == "F" else -1
                if kind != "W" and 0 <= stage - ahead < stages:
                    box = mailbox[(stage - ahead) % len(schedule), rank, kind]
                    if not box:
                        break
                    if box.popleft() != (micro, stage - ahead):
                        return False
                if kind != "W" and 0 <= stage + ahead < stages:
                    mailbox[rank, (stage + ahead) % len(schedule), kind].append((micro, stage))
                at[rank] += 1
                moved = True
    return all(i == len(actions) for i, actions in zip(at, schedule, strict=True))


@given(st.data())
def test_the_check_agrees_with_messages_that_pass(data):
    """Some actions of a working schedule change places: the check refuses what ranks with mailboxes
    cannot carry out, and nothing else."""
    name, p, v = data.draw(
        st.sampled_from(
            [
                ("gpipe", 2, 1),
                ("1f1b", 3, 1),
                ("1f1b", 4, 1),
                ("interleaved", 2, 2),
                ("interleaved", 3, 2),
                ("zero-bubble", 3, 1),
            ]
        )
    )
    schedule = [list(actions) for actions in make_schedule(name, p, p, v)]
    for _ in range(data.draw(st.integers(0, 3))):
        actions = schedule[data.draw(st.integers(0, p - 1))]
        i = data.draw(st.integers(0, len(actions) - 2))
        actions.insert(
            data.draw(st.integers(max(0, i - 3), min(len(actions) - 1, i + 3))), actions.pop(i)
        )
    # the same change on all ranks keeps the order of messages
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(p)))
        schedule = [
            [action._replace(micro=order[action.micro]) for action in actions]
            for actions in schedule
        ]
    changed = tuple(tuple(actions) for actions in schedule)
    before = {"B": "F", "W": "B"}
    in_order = all(
        a.kind == "F" or actions.index(a._replace(kind=before[a.kind])) < actions.index(a)
        for actions in schedule
        for a in actions
    )
    works = in_order and messages_pass(changed)
    if works:
        check_schedule(changed)
    else:
        with pytest.raises(ScheduleError):
            check_schedule(changed)
