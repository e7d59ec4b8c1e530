"""The events of all ranks together: every message is sent once and read once, no buffer goes before
its reader has it, and nobody waits for ever. Each check refuses a planted mistake."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from lab_utils.estimate.traffic import step_traffic
from lab_utils.layout.pipeline_events import (
    Await,
    Channel,
    Event,
    Receive,
    Release,
    Run,
    Send,
    events_of_rank,
    events_of_schedule,
    message_for,
    message_from,
    pipeline_events,
)
from lab_utils.layout.schedule import Action, PipelineSchedule, make_schedule

Ranks = tuple[tuple[Event, ...], ...]
NAMES = ("gpipe", "1f1b", "interleaved", "zero-bubble")
SETTINGS = [
    (name, p, m, v)
    for name, p, m, v in product(NAMES, (1, 2, 4), (1, 2, 3, 4, 8, 12), (1, 2, 3))
    if (v > 1) == (name == "interleaved") and (name != "interleaved" or m % p == 0)
]


def schedule_of(setting: tuple[str, int, int, int]) -> PipelineSchedule:
    return make_schedule(*setting)


# -- the checks ------------------------------------------------------------------------------------


def check_actions(ranks: Ranks, schedule: PipelineSchedule) -> None:
    """Each rank runs its own list, and what needs a message waits for it just before."""
    last_stage = max(action.stage for actions in schedule for action in actions)
    for events, actions in zip(ranks, schedule, strict=True):
        assert tuple(e.action for e in events if isinstance(e, Run)) == actions
        waits = {e.action: i for i, e in enumerate(events) if isinstance(e, Await)}
        begun = {e.action: i for i, e in enumerate(events) if isinstance(e, Receive)}
        runs = {e.action: i for i, e in enumerate(events) if isinstance(e, Run)}
        assert set(waits) == set(begun) == {a for a in actions if message_for(a, last_stage)}
        assert all(begun[a] < waits[a] < runs[a] for a in waits)
        # between an action's wait and its run nothing but buffers is let go
        assert all(
            isinstance(event, Release) for a in waits for event in events[waits[a] + 1 : runs[a]]
        )
        # the next message may come while an action computes, and no other: room for two at most
        order = {action: i for i, action in enumerate(actions)}
        for a, at in begun.items():
            before = [e.action for e in events[:at] if isinstance(e, Run)]
            assert len(before) == max(0, order[a] - 1)


def check_messages(ranks: Ranks) -> None:
    """On each channel from one rank to another, what is sent is what is received, in the same
    order."""
    sent, read = defaultdict(list), defaultdict(list)
    for rank, events in enumerate(ranks):
        for event in events:
            if isinstance(event, Send):
                sent[rank, event.to, event.channel].append(event.needed_by)
            elif isinstance(event, Receive):
                read[event.source, rank, event.channel].append(event.action)
    assert sent == read
    assert all(len(set(messages)) == len(messages) for messages in sent.values())


def check_buffers(ranks: Ranks) -> None:
    """Every buffer is let go once, and not before its reader has surely begun what needs it.

    Surely: each rank carries a note of how far every rank had come when the message that it waits
    for was sent (a vector clock); only notes are believed.
    """
    known = [Counter() for _ in ranks]  # rank → actions that it has begun, as far as is known here
    place = {e.action: i for events in ranks for i, e in enumerate(runs_of(events))}
    notes: dict[Action, Counter] = {}
    needed = {e.action: e for events in ranks for e in events if isinstance(e, Send)}
    gone = Counter()
    for rank, event, rest in in_time(ranks):
        if isinstance(event, Run):
            known[rank][rank] += 1
        elif isinstance(event, Send):
            notes[event.needed_by] = Counter(known[rank])
        elif isinstance(event, Await):
            known[rank] |= notes[event.action]
        elif isinstance(event, Release):
            gone[event.action] += 1
            send = needed[event.action]
            at_the_end = not any(isinstance(e, Run) for e in rest)
            assert at_the_end or known[rank][send.to] > place[send.needed_by], event
    assert gone == Counter(needed.keys())


def runs_of(events: tuple[Event, ...]) -> list[Run]:
    return [event for event in events if isinstance(event, Run)]


def in_time(ranks: Ranks):
    """(rank, event, its later ones): each rank goes on until it waits for a message that has not
    been sent. A send takes no time; to let go of a buffer is to wait until its reader has begun to
    receive it."""
    at, box, begun, moved = [0] * len(ranks), defaultdict(deque), set(), True
    receives, sends = (
        {e.action: e for events in ranks for e in events if isinstance(e, kind)}
        for kind in (Receive, Send)
    )
    while moved:
        moved = False
        for rank, events in enumerate(ranks):
            while at[rank] < len(events):
                event = events[at[rank]]
                if isinstance(event, Receive):
                    begun.add(event.action)
                elif isinstance(event, Await):
                    receive = receives[event.action]
                    messages = box[receive.source, rank, receive.channel]
                    if not messages:
                        break
                    assert messages.popleft() == event.action
                elif isinstance(event, Send):
                    box[rank, event.to, event.channel].append(event.needed_by)
                elif isinstance(event, Release) and sends[event.action].needed_by not in begun:
                    break
                at[rank] += 1
                moved = True
                yield rank, event, events[at[rank] :]
    stuck = {r: events[at[r]] for r, events in enumerate(ranks) if at[r] < len(events)}
    assert not stuck, f"deadlock: {stuck}"


def check_progress(ranks: Ranks) -> None:
    for _ in in_time(ranks):
        pass


def check_all(ranks: Ranks, schedule: PipelineSchedule) -> None:
    check_actions(ranks, schedule)
    check_messages(ranks)
    check_progress(ranks)
    check_buffers(ranks)


# -- held to every schedule ------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_events_of_every_schedule(setting):
    schedule = schedule_of(setting)
    check_all(events_of_schedule(schedule), schedule)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_one_rank_alone_finds_the_same_events(setting):
    name, p, m, v = setting
    schedule = schedule_of(setting)
    for rank in range(p):
        assert events_of_rank(name, rank, p, m, v) == pipeline_events(schedule, rank)


def test_a_message_has_one_maker_and_one_reader():
    for setting in SETTINGS:
        schedule = schedule_of(setting)
        last_stage = setting[1] * setting[3] - 1
        for action in (action for actions in schedule for action in actions):
            maker = message_for(action, last_stage)
            assert maker is None or message_from(maker, last_stage) == action


def test_by_hand_1f1b_on_two_ranks():
    f, b = ([Action(kind, micro, 1) for micro in range(2)] for kind in "FB")
    activations, gradients = Channel
    assert pipeline_events(make_schedule("1f1b", 2, 2), 1) == (
        Receive(f[0], 0, activations, 1),
        Await(f[0]),
        Run(f[0]),
        Receive(f[1], 0, activations, 1),
        Run(b[0]),
        Send(b[0], 0, gradients, Action("B", 0, 0)),
        # rank 0 sent this before it took the gradient: that buffer stays
        Await(f[1]),
        Run(f[1]),
        Run(b[1]),
        Send(b[1], 0, gradients, Action("B", 1, 0)),
        Release(b[0]),
        Release(b[1]),
    )
    first = pipeline_events(make_schedule("1f1b", 2, 2), 0)
    zero = Action("F", 0, 0)
    # the gradient of micro-batch 0 says that its activations were read
    assert first[first.index(Await(Action("B", 0, 0))) + 1] == Release(zero)


def test_as_many_messages_as_the_closed_form_of_the_traffic_counts():
    from lab_utils import TrainConfig

    for name, p, m, v in SETTINGS:
        if p == 1 or (name, v) == ("interleaved", 3):
            continue
        config = TrainConfig.of(
            layers=8, hidden=16, heads=2, seq=8, pp=p, schedule=name, virtual_stages=v,
            micro_batch=1, global_batch=m,
        )  # fmt: skip
        for rank in range(p):
            sends = sum(isinstance(e, Send) for e in events_of_rank(name, rank, p, m, v))
            counted = [x.calls for x in step_traffic(config, 0, rank) if x.axis == "pp"]
            assert counted[0] == sends


# -- planted mistakes ------------------------------------------------------------------------------


def changed(ranks: Ranks, rank: int, change: Callable[[list[Event]], None]) -> Ranks:
    events = list(ranks[rank])
    change(events)
    return (*ranks[:rank], tuple(events), *ranks[rank + 1 :])


def first(events: list[Event], kind: type, number: int = 0) -> int:
    return [i for i, event in enumerate(events) if isinstance(event, kind)][number]


def sent_twice(events: list[Event]) -> None:
    events.insert(first(events, Send), events[first(events, Send)])


def sent_on_the_other_channel(events: list[Event]) -> None:
    i = first(events, Send)
    events[i] = replace(events[i], channel=Channel(1 - events[i].channel))


def two_messages_cross(events: list[Event]) -> None:
    i, j = (first(events, Send, number) for number in (0, 1))
    events[i], events[j] = events[j], events[i]


def never_sent(events: list[Event]) -> None:
    del events[first(events, Send)]


def never_let_go(events: list[Event]) -> None:
    del events[first(events, Release)]


def let_go_twice(events: list[Event]) -> None:
    events.append(events[first(events, Release)])


def let_go_as_soon_as_it_is_sent(events: list[Event]) -> None:
    send = events[first(events, Send)]
    events.remove(Release(send.action))
    events.insert(events.index(send) + 1, Release(send.action))


def let_go_with_the_next_message(events: list[Event]) -> None:
    """Whoever sent that one may not have come to ours yet."""
    for event in [e for e in events if isinstance(e, Release)]:
        sent = next(i for i, e in enumerate(events) if e == send_of(events, event))
        later = [i for i, e in enumerate(events) if isinstance(e, Await) and i > sent]
        if later and later[0] + 1 < events.index(event):
            events.remove(event)
            events.insert(later[0] + 1, event)
            return


def send_of(events: list[Event], release: Release) -> Send:
    return next(e for e in events if isinstance(e, Send) and e.action == release.action)


def sent_after_the_next_wait(events: list[Event]) -> None:
    send = events.pop(first(events, Send))
    events.insert(first(events, Await) + 1, send)


def not_waited_for(events: list[Event]) -> None:
    del events[first(events, Await)]


def runs_before_the_message_is_here(events: list[Event]) -> None:
    i = first(events, Await)
    run = events.index(Run(events[i].action))
    events.insert(i, events.pop(run))


def begins_to_receive_one_action_late(events: list[Event]) -> None:
    i = first(events, Receive, 1)
    event = events.pop(i)
    events.insert(events.index(Await(event.action)), event)


PLANTED = [
    (check_messages, sent_twice, 1),
    (check_messages, sent_on_the_other_channel, 1),
    (check_messages, two_messages_cross, 0),
    (check_messages, never_sent, 1),
    (check_progress, never_sent, 1),
    (check_progress, two_messages_cross, 0),
    (check_progress, sent_after_the_next_wait, 0),
    (check_buffers, never_let_go, 1),
    (check_buffers, let_go_twice, 1),
    (check_buffers, let_go_as_soon_as_it_is_sent, 1),
    (check_buffers, let_go_with_the_next_message, 1),
    (check_actions, not_waited_for, 1),
    (check_actions, runs_before_the_message_is_here, 1),
    (check_actions, begins_to_receive_one_action_late, 1),
]


@pytest.mark.parametrize(
    ("check", "mistake", "rank"), PLANTED, ids=[f"{c.__name__}-{m.__name__}" for c, m, _ in PLANTED]
)
@pytest.mark.parametrize("setting", [("1f1b", 4, 6, 1), ("gpipe", 4, 4, 1)], ids=str)
def test_a_planted_mistake_is_caught(check, mistake, rank, setting):
    schedule = schedule_of(setting)
    right = events_of_schedule(schedule)
    wrong = changed(right, rank, mistake)
    assert wrong != right
    arguments = (schedule,) if check is check_actions else ()
    check(right, *arguments)
    with pytest.raises(AssertionError):
        check(wrong, *arguments)
