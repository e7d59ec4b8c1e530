"""Is a schedule one that ranks can carry out, and what does it hold in memory? Asked of the data,
before any process starts."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import product
from typing import Literal

from ..i18n import t
from .pipeline_events import message_for, message_from
from .schedule import Action, PipelineSchedule, splits_backward


class ScheduleError(ValueError):
    """A schedule that cannot be carried out; the message names the rank and the action."""


def check_schedule(schedule: PipelineSchedule) -> None:
    """Raise ScheduleError, one sentence, for the first fault found in `schedule`; return None for a
    schedule that works.

    Faults: an action on the wrong rank, twice or missing; a backward before its forward or weight
    gradients before their backward on a stage; messages that a rank takes in another order than
    they were sent (they carry no name: the receiver takes the next one of that sender and kind);
    ranks that wait for one another where receiving blocks and sending does not. The order of
    micro-batches is free.
    """
    _check_places(schedule)
    _check_complete(schedule)
    for rank, actions in enumerate(schedule):
        _check_local_order(rank, actions)
    _check_message_order(schedule)
    _check_progress(schedule)


def waits_for(action: Action, last_stage: int) -> Action | None:
    """The one action that must end before this may begin, beside those before it on its own
    rank."""
    made_by = message_for(action, last_stage)
    if made_by is not None or action.kind == "F":
        return made_by
    return action._replace(kind="F" if action.kind == "B" else "B")


def in_flight(schedule: PipelineSchedule, until: Literal["B", "W"] = "B") -> list[int]:
    """Per rank, the most (stage, micro-batch) forwards whose activations it holds at once.

    until="B": held from F until B ends, which frees what only B needs. until="W": until W ends,
    because the inputs of linear layers and the gradients of their outputs stay for it; the same as
    "B" in a schedule without W.
    """
    frees = until if splits_backward(schedule) else "B"
    peaks = []
    for actions in schedule:
        held = peak = 0
        for action in actions:
            held += (action.kind == "F") - (action.kind == frees)
            peak = max(peak, held)
        peaks.append(peak)
    return peaks


def _last_stage(schedule: PipelineSchedule) -> int:
    """The schedule's last virtual stage: every rank has as many stages as the one that has most."""
    stages = 1 + max((action.stage for actions in schedule for action in actions), default=-1)
    return -(-stages // len(schedule)) * len(schedule) - 1 if schedule else -1


def _check_places(schedule: PipelineSchedule) -> None:
    for rank, actions in enumerate(schedule):
        for action in actions:
            if action.kind not in ("F", "B", "W") or action.micro < 0 or action.stage < 0:
                raise ScheduleError(
                    t(
                        f"rank {rank} holds {tuple(action)}, which is no action: kind F, B or W,"
                        " micro-batch and stage from 0 up.",
                        f"rank {rank} 上的 {tuple(action)} 不是合法动作：种类只能是 F、B 或 W，"
                        "微批次与阶段从 0 起编号。",
                    )
                )
            owner = action.stage % len(schedule)
            if owner != rank:
                raise ScheduleError(
                    t(
                        f"{_words(action)} stands on rank {rank}, but stage {action.stage} lives on"
                        f" rank {owner}.",
                        f"{_words(action)}排在 rank {rank} 上，而阶段 {action.stage} 属于 rank"
                        f" {owner}。",
                    )
                )


def _check_complete(schedule: PipelineSchedule) -> None:
    times = Counter(action for actions in schedule for action in actions)
    if not times:
        raise ScheduleError(t("the schedule holds no action.", "这个调度里没有任何动作。"))
    kinds, stages, micro_batches = (
        "FBW" if splits_backward(schedule) else "FB",
        _last_stage(schedule) + 1,
        1 + max(action.micro for action in times),
    )
    for action in (
        Action(kind, micro, stage)
        for kind, stage, micro in product(kinds, range(stages), range(micro_batches))
    ):
        if times[action] != 1:
            rank, n = action.stage % len(schedule), times[action]
            raise ScheduleError(
                t(
                    f"{_words(action)} stands {n} times on rank {rank}.",
                    f"{_words(action)}在 rank {rank} 上出现了 {n} 次。",
                )
                if n
                else t(
                    f"{_words(action)} is missing on rank {rank}.",
                    f"rank {rank} 上缺少{_words(action)}。",
                )
            )


def _check_local_order(rank: int, actions: Iterable[Action]) -> None:
    done: set[Action] = set()
    for action in actions:
        before = {"B": "F", "W": "B"}.get(action.kind)
        if before and action._replace(kind=before) not in done:
            first = _words(action._replace(kind=before))
            raise ScheduleError(
                t(
                    f"on rank {rank}, {_words(action)} stands before {first}.",
                    f"rank {rank} 上，{_words(action)}排在了{first}之前。",
                )
            )
        done.add(action)


def _check_message_order(schedule: PipelineSchedule) -> None:
    last_stage = _last_stage(schedule)
    for sender, kind in product(range(len(schedule)), "FB"):
        receiver = (sender + (1 if kind == "F" else -1)) % len(schedule)
        sent = [a for a in schedule[sender] if a.kind == kind and message_from(a, last_stage)]
        taken = [
            made_by
            for a in schedule[receiver]
            if a.kind == kind and (made_by := message_for(a, last_stage))
        ]
        for first, wanted in zip(sent, taken, strict=True) if sender != receiver else ():
            if first != wanted:
                what = t("activations", "激活值") if kind == "F" else t("gradients", "梯度")
                raise ScheduleError(
                    t(
                        f"rank {sender} sends rank {receiver} the {what} of {_words(first)} where"
                        f" it takes those of {_words(wanted)}.",
                        f"rank {sender} 发给 rank {receiver} 的下一份{what}来自{_words(first)}，"
                        f"而对方此时要取的是{_words(wanted)}的。",
                    )
                )


def _check_progress(schedule: PipelineSchedule) -> None:
    """Let every rank go as far as it can until none can go on: what is left then waits for ever."""
    last_stage = _last_stage(schedule)
    done: set[Action] = set()
    at = [0] * len(schedule)  # per rank: how many actions are behind it
    waiting: dict[Action, int] = {}  # what a rank waits for → that rank
    able = deque(range(len(schedule)))
    while able:
        rank = able.popleft()
        for i in range(at[rank], len(schedule[rank])):
            action = schedule[rank][i]
            needed = waits_for(action, last_stage)
            if needed is not None and needed not in done:
                waiting[needed] = rank
                break
            done.add(action)
            at[rank] += 1
            if action in waiting:
                able.append(waiting.pop(action))
    stuck = {rank: schedule[rank][i] for rank, i in enumerate(at) if i < len(schedule[rank])}
    if stuck:
        raise ScheduleError(_deadlock(schedule, stuck, last_stage))


def _deadlock(schedule: PipelineSchedule, stuck: dict[int, Action], last_stage: int) -> str:
    """Follow from a stuck rank to the rank that it waits for until one comes up again: that circle
    is the deadlock."""
    path: list[int] = []
    rank = min(stuck)
    while rank not in path:
        path.append(rank)
        needed = waits_for(stuck[rank], last_stage)
        rank = needed.stage % len(schedule)
    sentences = []
    for waiter in path[path.index(rank) :]:
        needed = waits_for(stuck[waiter], last_stage)
        todo, other, wanted = _words(stuck[waiter]), needed.stage % len(schedule), _words(needed)
        sentences.append(
            t(
                f"rank {waiter} is at {todo} and waits for {wanted} on rank {other}",
                f"rank {waiter} 停在{todo}，在等 rank {other} 的{wanted}",
            )
        )
    return t(f"deadlock: {'; '.join(sentences)}.", f"死锁：{'；'.join(sentences)}。")


def _words(action: Action) -> str:
    en = {"F": "the forward", "B": "the backward", "W": "the weight gradient"}[action.kind]
    zh = {"F": "前向", "B": "反向", "W": "权重梯度"}[action.kind]
    return t(
        f"{en} of micro-batch {action.micro} on stage {action.stage}",
        f"阶段 {action.stage} 上微批次 {action.micro} 的{zh}",
    )
