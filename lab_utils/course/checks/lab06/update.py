"""Exercise 1: a ZeRO-1 step over one flat buffer, the optimizer's states shared out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.mesh import Mesh
from ..live import LiveStorages
from ..ranks import Transfers, begin_case, saw
from ..verdict import Failure, Measured
from .optimizers import PER_ELEMENT, Optimizers, States, judge_states
from .seen import WatchedAxis, judge_sent, judge_weights, judge_wire, same_as_one_process, see_sent, see_weights
from .steps import StepFacts, examine_steps
from .training import STEPS, Case, flat, train_alone
from .update_hints import HINTS

__all__ = ["HINTS", "VISIBLE", "Case", "examine"]

VISIBLE = (
    Case(4, 12, (14,) * 6, seed=1), Case(4, 9, (11, 8, 13), "padding", "adamw", gain=True, seed=2),
    Case(3, 11, (9, 13, 9), "any-n", gain=True, seed=3),
)  # fmt: skip


def examine(answer: Any, cases: Sequence[Case]) -> Failure | Measured:
    """The first case and step that fails, or what was held and sent in each."""
    found = examine_steps(run_cases, answer, cases, judge)
    if isinstance(found, Failure):
        return found
    rows = [("N", t("parameters", "参数个数"), t("optimizer", "优化器"), t("states of the whole model, bytes", "整个模型的状态（字节）"),
             t("states on a rank, held", "一个 rank 持有的状态"), t("at the most", "最多时"), t("reduce-scatter, payload", "reduce-scatter 数据量"),
             t("all-gather, payload", "all-gather 数据量"), t("sent by a rank", "每个 rank 实发"), t("in an all-reduce it would be", "若用 all-reduce"))]
    rows += [_row(case, steps[-1]) for case, steps in found]
    return Measured(tuple(rows), (same_as_one_process(cases),))


def judge(case: Case, facts: list[StepFacts], step: int, where: str) -> Failure | None:
    """Values, then who holds how much, then what it cost."""
    return (judge_sent([f.sent for f in facts], where) or judge_weights(case, [f.weights for f in facts], step, where)
            or judge_states(case, [f.states for f in facts], where)
            or next((failure for f in facts if (failure := judge_wire(case, f.sent, 1, where))), None))


def _row(case: Case, facts: list[StepFacts]) -> tuple[str, ...]:
    f, payload = facts[0], facts[0].sent.bytes
    whole, all_reduced = PER_ELEMENT[case.optimizer] * case.numel * case.itemsize, 2 * (case.ranks - 1) / case.ranks * case.numel * case.itemsize
    return (str(case.ranks), f"{case.numel:,}", case.optimizer, f"{whole:,}", f"{max(f.states.now for f in facts):,}",
            f"{max(f.states.peak for f in facts):,}", f"{payload.get('reduce_scatter', 0):,}", f"{payload.get('all_gather', 0):,}",
            f"{f.sent.wire_bytes:,}", f"{all_reduced:,.0f}")


def run_cases(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """On a rank: three steps of each case; step s of case c is told as number 3c + s."""
    axis = WatchedAxis(Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"])
    for number, case in enumerate(cases):
        begin_case(number * STEPS, patience, axis)
        right, model, optimizers = train_alone(case), case.model(), Optimizers(case)
        live = LiveStorages(also=optimizers.bytes)
        live.begin_peak()
        with live:
            zero = answer(model, axis, optimizers.make)
        for step in range(STEPS):
            begin_case(number * STEPS + step, patience, axis)
            axis.ledger.clear()
            if step:
                live.begin_peak()
            with live, Transfers() as transfers:
                model.zero_grad()
                model(*case.batch(step, axis.rank)).backward()
                zero.step()
            with live, live.ignoring():
                weights = flat(model.weights())
            facts = StepFacts(see_weights(weights, right, step, case), see_sent(axis, transfers),
                              States.of(optimizers, max(live.also_peak, optimizers.bytes())))
            saw(number * STEPS + step, facts)
            if axis.anyone(judge(case, [facts], step, "") is not None):
                return
