"""Exercise 1: a ZeRO-1 step over one flat buffer, the optimizer's states shared out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from ..exercise import Column, Exercise
from ..transfers import Transfers
from ..verdict import Failure
from ..watch import Watch
from .axis import ShardingAxis
from .optimizers import PER_ELEMENT, Optimizers, States, judge_states
from .seen import judge_sent, judge_weights, judge_wire, same_as_one_process, see_sent, see_weights
from .steps import StepFacts, in_step, run_cases
from .training import RANKS, STEPS, Case, flat, plain, train_alone, uneven


def judge(case: Case, facts: list[StepFacts], step: int) -> Failure | None:
    """Values, then who holds how much, then what it cost."""
    return (
        judge_sent([f.sent for f in facts])
        or judge_weights(case, [f.weights for f in facts], step)
        or judge_states(case, [f.states for f in facts])
        or judge_wire(case, [f.sent for f in facts], 1)
    )


def train(answer: Any, case: Case, axis: ShardingAxis) -> Iterator[StepFacts]:
    """Three steps with an answer's optimizer, and what this rank saw in each."""
    right, model, optimizers = train_alone(case), case.model(), Optimizers(case)
    optimizers.watch = live = Watch(also=optimizers.bytes)
    model.be_seen_by(live.must_see)
    axis.begin_step(live)
    live.begin_peak()
    with live:
        zero = answer(model, axis, optimizers.make)
    for step in range(STEPS):
        axis.begin_step(live)
        if step:
            live.begin_peak()
        with Transfers() as transfers, live:
            model.zero_grad()
            model(*case.batch(step, axis.rank)).backward()
            zero.step()
        with live, live.ignoring():
            weights = flat(model.weights())
        yield StepFacts(
            see_weights(weights, right, step, case),
            see_sent(axis, transfers),
            States.of(optimizers, live, model.parameters(), step + 1),
        )


def draw(random: Random) -> list[Case]:
    """Per number of ranks: a plain case first, so that a general mistake is not taken for a special
    one."""
    return [
        case
        for n in RANKS
        for case in (
            plain(random, n, random.randint(2, 4)),
            uneven(random, n, 3, optimizer=random.choice(["sgd", "adamw"])),
        )
    ]


def _payload(op: str) -> Column:
    def value(_: Case, told: Any) -> str:
        return f"{told[-1][0].sent.bytes.get(op, 0):,}"

    name = op.replace("_", "-")
    return Column(f"{name}, payload", f"{name} 数据量", value)


def _states(case: Case, _: Any) -> str:
    return f"{PER_ELEMENT[case.optimizer] * case.numel * case.itemsize:,}"


def _all_reduced(case: Case, _: Any) -> str:
    return f"{2 * (case.ranks - 1) / case.ranks * case.numel * case.itemsize:,.0f}"


EXERCISE = Exercise(
    check="zero1",
    answer="Zero1",
    lab="lab06",
    run=partial(run_cases, train, judge, STEPS),
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("parameters", "参数个数", lambda case, _: f"{case.numel:,}"),
        Column("optimizer", "优化器", lambda case, _: case.optimizer),
        Column("states of the whole model, bytes", "整个模型的状态（字节）", _states),
        Column(
            "states on a rank, held",
            "一个 rank 持有的状态",
            lambda _, told: f"{max(f.states.now for f in told[-1]):,}",
        ),
        Column(
            "at the most", "最多时", lambda _, told: f"{max(f.states.peak for f in told[-1]):,}"
        ),
        _payload("reduce_scatter"),
        _payload("all_gather"),
        Column(
            "sent by a rank", "每个 rank 实发", lambda _, told: f"{told[-1][0].sent.wire_bytes:,}"
        ),
        Column("in an all-reduce it would be", "若用 all-reduce", _all_reduced),
    ),
    visible=(
        Case(4, 12, (14,) * 6, seed=1),
        Case(4, 9, (11, 8, 13), "padding", "adamw", gain=True, seed=2),
        Case(3, 11, (9, 13, 9), "any-n", gain=True, seed=3),
    ),
    draw=draw,
    moments=STEPS,
    moment=in_step,
    lines=same_as_one_process,
)
