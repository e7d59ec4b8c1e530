"""What the two exercises on schedules share: whether an answer is a schedule at all, and real ranks
that carry it out, with stages that wait instead of computing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....config import ParallelConfig
from ....estimate.time.pipeline import Timeline, simulate
from ....i18n import t
from ....layout import schedule_check
from ....layout.schedule import Action, PipelineSchedule
from ....layout.schedule_check import ScheduleError, in_flight
from ....measure.schedule import Lane, run_waiting, timeline_of
from ....parallel.mesh import Mesh
from ..ranks import begin_case, saw
from ..verdict import Failure

UNIT_SECONDS = 0.003  # of a forward, on real ranks


@dataclass(frozen=True)
class Case:
    """p ranks, m micro-batches; `real`: on p processes, else by the schedule alone."""

    p: int
    m: int
    real: bool = True

    @property
    def ranks(self) -> int:
        """How many processes the case takes."""
        return self.p if self.real else 1

    def __str__(self) -> str:
        return t(f"p = {self.p}, m = {self.m}", f"p = {self.p}、m = {self.m}")


@dataclass
class Facts:
    """One rank: `fault` is (criterion, words) of what can be no schedule; else the schedule, and
    what this rank saw of it on the clock."""

    fault: tuple[str, str] | None
    schedule: PipelineSchedule | None = None
    lane: Lane | None = None


def run(
    ask: Callable[[Any, Case], Any],
    kinds: str,
    seconds: Sequence[float],
    answer: Any,
    cases: Sequence[Case],
    patience: float,
) -> None:
    """Ask for each case's schedule, and carry it out if it is one; `kinds` of actions that are
    allowed, and how many units each takes."""
    axis = Mesh(ParallelConfig(pp=int(os.environ["WORLD_SIZE"])))["pp"]
    for number, case in enumerate(cases):
        begin_case(number, patience, axis)
        facts = asked(ask, kinds, answer, case)
        if facts.schedule and case.real:
            facts.lane = run_waiting(
                facts.schedule, *(UNIT_SECONDS * units for units in seconds), axis=axis
            )
        saw(number, facts)


def asked(ask: Callable[[Any, Case], Any], kinds: str, answer: Any, case: Case) -> Facts:
    """The answer as a schedule, or the first fault in it."""
    returned = ask(answer, case)
    fault = _form(returned, case, kinds)
    if fault:
        return Facts(("order.form", fault))
    schedule = tuple(
        tuple(Action(kind, micro, rank) for kind, micro in lane)
        for rank, lane in enumerate(returned)
    )
    complete = {(k, i) for k in kinds for i in range(case.m)}
    for rank, lane in enumerate(schedule):
        came = [(kind, micro) for kind, micro, _ in lane]
        if len(came) != len(set(came)) or set(came) != complete:
            words = t(
                f"rank {rank} has {len(came)} actions, {len(set(came) & complete)} different ones"
                f" of the {len(complete)} that there are.",
                f"rank {rank} 有 {len(came)} 个动作，"
                f"应有的 {len(complete)} 个里只出现了 {len(set(came) & complete)} 个。",
            )
            return Facts(("order.complete", words))
    for criterion, check in (
        ("order.local", lambda s: [schedule_check._check_local_order(*x) for x in enumerate(s)]),
        ("order.messages", schedule_check._check_message_order),
        ("order.deadlock", schedule_check._check_progress),
    ):
        try:
            check(schedule)
        except ScheduleError as error:
            return Facts((criterion, str(error)))
    return Facts(None, schedule)


def _form(returned: Any, case: Case, kinds: str) -> str:
    """What is wrong with the form; empty where nothing is."""
    if not isinstance(returned, list | tuple) or len(returned) != case.p:
        return t(f"{_short(returned)}.", f"返回的是 {_short(returned)}。")
    for rank, lane in enumerate(returned):
        if not isinstance(lane, list | tuple):
            return t(f"rank {rank}: {_short(lane)}.", f"rank {rank}：{_short(lane)}。")
        for one in lane:
            pair = isinstance(one, list | tuple) and len(one) == 2
            if not pair or one[0] not in tuple(kinds) or type(one[1]) is not int:
                return t(f"rank {rank} holds {_short(one)}.", f"rank {rank} 里有 {_short(one)}。")
    return ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def judge_form(facts: Sequence[Facts], form: str) -> Failure | None:
    """What must hold of any schedule; `form`: what the exercise asks for, in words."""
    fault = next((f.fault for f in facts if f.fault), None)
    if fault is None:
        return None
    expected = {
        "order.form": form,
        "order.complete": t(
            "every action of every micro-batch, once.", "每个微批次的每个动作恰好一次。"
        ),
        "order.local": t("F before B, and B before W.", "先 F 后 B，先 B 后 W。"),
        "order.messages": t(
            "messages are taken in the order in which the neighbour sends them.",
            "按相邻 rank 发送的次序接收消息。",
        ),
        "order.deadlock": t("ranks that never wait in a circle.", "各 rank 不会互相等成一圈。"),
    }[fault[0]]
    return Failure(fault[0], expected, fault[1])


def judge_held(facts: Sequence[Facts], limits: Sequence[int]) -> Failure | None:
    """What every rank holds: alive on real ranks, else by the schedule."""
    schedule = facts[0].schedule
    held = [f.lane.held for f in facts] if facts[0].lane else in_flight(schedule, until="W")
    for rank, (n, limit) in enumerate(zip(held, limits, strict=True)):
        if n > limit:
            return Failure(
                "order.held",
                t(
                    f"rank {rank} holds at most {limit} micro-batches.",
                    f"rank {rank} 最多持有 {limit} 个微批次。",
                ),
                t(f"{n} were alive at once.", f"有 {n} 个同时存活。"),
            )
    return None


def measured(facts: Sequence[Facts]) -> Timeline | None:
    """The step as real ranks took it."""
    if any(f.lane is None for f in facts):
        return None
    return timeline_of(facts[0].schedule, [f.lane for f in facts])


def shown_seconds(told: Any) -> str:
    """For a column: milliseconds of the step on real ranks."""
    timeline = measured(told[0])
    return "—" if timeline is None else f"{1e3 * timeline.seconds:.0f} ms"


def simulated_seconds(told: Any, seconds: Sequence[float]) -> str:
    """For a column: what the simulator promised of it."""
    played = simulate(told[0][0].schedule, *(UNIT_SECONDS * units for units in seconds))
    return f"{1e3 * played.seconds:.0f} ms"


def shown_held(told: Any) -> str:
    """For a column: what each rank held."""
    facts = told[0]
    held = [f.lane.held for f in facts] if facts[0].lane else in_flight(facts[0].schedule, "W")
    return ", ".join(map(str, held))
