"""Exercise 2: ZeRO-2 gradients, each summed to its owners and freed in its hook; one norm for the whole model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from typing import Any

from ....config import ParallelConfig
from ....i18n import t
from ....measure.memory import storage_bytes
from ....parallel.mesh import Mesh
from ..live import LiveStorages
from ..ranks import Transfers, begin_case, saw
from ..verdict import Failure, Measured
from .gradients_hints import HINTS
from .optimizers import Optimizers, States, judge_states
from .seen import CONTROL_BYTES, WatchedAxis, judge_sent, judge_weights, judge_wire, same_as_one_process, see_sent, see_weights
from .steps import Plain, StepFacts, examine_steps
from .training import STEPS, Case, flat, train_alone

__all__ = ["HINTS", "VISIBLE", "Case", "examine"]

VISIBLE = (
    Case(3, 12, (12,) * 5, seed=1), Case(3, 8, (11, 9, 7), "padding", gain=True, seed=2), Case(3, 12, (12, 9), "norm", max_norm=0.5, seed=3),
    Case(3, 12, (12, 9), "overflow", max_norm=1.0, overflow_at=1, seed=4), Case(4, 9, (10, 7, 11), "any-n", "adamw", gain=True, max_norm=1.0, seed=5),
)  # fmt: skip


@dataclass
class Facts(StepFacts):
    """What one rank saw in one step. Bytes are live storages beyond those from before the step."""

    norm: float | None          # what `step` returned; None: no number
    right_norm: float
    kept: int                   # bytes alive when the backward pass was over
    most: int                   # at the most, during it
    plain: int                  # the most in a plain backward pass whose gradients are thrown away at once
    whole_gradients: int        # parameters that still had their .grad then
    shard_elements: int         # bytes of elements in the optimizer's gradients,
    shard_storages: int         # and of the storages that these keep


def examine(answer: Any, cases: Sequence[Case]) -> Failure | Measured:
    """The first case and step that fails, or what was held and sent in each."""
    found = examine_steps(run_cases, answer, cases, judge)
    if isinstance(found, Failure):
        return found
    rows = [("N", t("parameters", "参数个数"), t("all gradients, bytes", "全部梯度（字节）"), t("at the most, in the backward pass", "反向传播中最多时"),
             t("a plain backward pass that keeps none", "一个梯度也不留的反向传播"), t("left after it", "反向传播之后留下的"), "1/N",
             t("sent by a rank", "每个 rank 实发"), t("norms returned", "返回的范数"))]
    rows += [_row(case, steps) for case, steps in found]
    return Measured(tuple(rows), (same_as_one_process(cases),))


def _row(case: Case, steps: list[list[Facts]]) -> tuple[str, ...]:
    f, norms = steps[-1][0], " ".join("—" if facts[0].norm is None else f"{facts[0].norm:.3g}" for facts in steps)
    return (str(case.ranks), f"{case.numel:,}", f"{case.numel * case.itemsize:,}", f"{max(f.most for f in steps[-1]):,}", f"{f.plain:,}",
            f"{max(f.kept for f in steps[-1]):,}", f"{case.numel * case.itemsize / case.ranks:,.0f}", f"{f.sent.wire_bytes:,}", norms)


def judge(case: Case, facts: list[Facts], step: int, where: str) -> Failure | None:
    """Values, then what was alive, then who holds the states and what it cost."""
    return (judge_sent([f.sent for f in facts], where) or judge_norm(case, facts, step, where)
            or judge_weights(case, [f.weights for f in facts], step, where) or _kept(case, facts, where) or _most(case, facts, where)
            or judge_states(case, [f.states for f in facts], where)
            or next((failure for f in facts if (failure := judge_wire(case, f.sent, 1, where))), None))


def judge_norm(case: Case, facts: list[Facts], step: int, where: str) -> Failure | None:
    """In the cases that are there for it: what `step` returned, on every rank."""
    if case.criterion not in ("norm", "overflow", "any-n"):
        return None
    right = facts[0].right_norm
    for rank, f in enumerate(facts):
        came = t(f"rank {rank} returned {f.norm if f.norm is None else format(f.norm, '.5g')}.",
                 f"rank {rank} 返回了 {f.norm if f.norm is None else format(f.norm, '.5g')}。")
        if not isfinite(right) and (f.norm is None or isfinite(f.norm)):
            return Failure(case.criterion, t("one infinite gradient, on whichever rank, makes the norm inf or nan on every rank.",
                                             "只要任一 rank 上有一个梯度是无穷大，每个 rank 返回的范数都是 inf 或 nan。"), came, where)
        if isfinite(right) and (f.norm is None or not isclose(f.norm, right, rel_tol=1e-5)):
            return Failure(case.criterion, t(f"step returns the norm of the whole model's mean gradient, {right:.5g}, on every rank.",
                                             f"在每个 rank 上，step 都返回整个模型平均梯度的范数 {right:.5g}。"), came, where)
    return None


def _kept(case: Case, facts: list[Facts], where: str) -> Failure | None:
    limit, worst = case.shard_bytes + case.largest_block, max(facts, key=lambda f: f.kept)
    if worst.kept <= limit:
        return None
    expected = t(f"when the backward pass is over, a rank holds its shards of the gradients, {case.shard_bytes:,} bytes, and little else.",
                 f"反向传播结束时，一个 rank 只留下自己的梯度分片，{case.shard_bytes:,} 字节，此外几乎没有别的。")
    came = t(f"{worst.kept:,} of {case.numel * case.itemsize:,} bytes of gradients are still alive",
             f"全部 {case.numel * case.itemsize:,} 字节的梯度中，还有 {worst.kept:,} 字节留着")
    if not worst.whole_gradients and worst.shard_storages > limit:
        came += t(f": the optimizer's gradients have {worst.shard_elements:,} bytes of elements, but keep {worst.shard_storages:,} bytes of storage.",
                  f"：优化器的梯度只有 {worst.shard_elements:,} 字节的元素，却占着 {worst.shard_storages:,} 字节的存储。")
        return Failure("gradients.view", expected, came, where)
    came += t(f"; {worst.whole_gradients} parameters still have their .grad.", f"；{worst.whole_gradients} 个参数的 .grad 还在。")
    return Failure("gradients.kept", expected, came, where)


def _most(case: Case, facts: list[Facts], where: str) -> Failure | None:
    limit, worst = facts[0].plain + case.shard_bytes + 3 * case.largest_block // 2 + CONTROL_BYTES, max(f.most for f in facts)
    if worst <= limit:
        return None
    return Failure("gradients.peak", t(f"each gradient goes as it comes: at no moment more than {limit:,} bytes.",
                                       f"梯度来一个走一个：任何时刻都不超过 {limit:,} 字节。"),
                   t(f"at the most {worst:,} bytes were alive during the backward pass.", f"反向传播中最多时有 {worst:,} 字节存活。"), where)


def run_cases(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """On a rank: three steps of each case; step s of case c is told as number 3c + s."""
    axis = WatchedAxis(Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"])
    for number, case in enumerate(cases):
        begin_case(number * STEPS, patience, axis)
        right, plain, model, optimizers = train_alone(case), Plain.of(case).peak, case.model(), Optimizers(case)
        live = LiveStorages(also=optimizers.bytes)
        axis.apart = live.ignoring
        live.follow(model.parameters())
        with live:
            zero = answer(model, axis, optimizers.make)
        for step in range(STEPS):
            begin_case(number * STEPS + step, patience, axis)
            axis.ledger.clear()
            x, y = case.batch(step, axis.rank)
            live.follow([x, y])
            before, hook = live.now(), case.spoil(model, step, axis.rank)
            live.begin_peak()
            with live, Transfers() as transfers:
                model(x, y).backward()
            kept, most, shards = live.now() - before, live.peak - before, optimizers.gradients()
            held = dict(kept=kept, most=most, plain=plain, whole_gradients=sum(p.grad is not None for p in model.parameters()),
                        shard_elements=sum(g.numel() * g.element_size() for g in shards), shard_storages=storage_bytes(shards))
            del shards
            if hook is not None:
                hook.remove()
            with live, transfers:
                norm = _number(zero.step(case.max_norm))
            with live, live.ignoring():
                weights = flat(model.weights())
            facts = Facts(see_weights(weights, right, step, case), see_sent(axis, transfers),
                          States.of(optimizers, max(live.also_peak, optimizers.bytes())), norm, right.norms[step], **held)
            saw(number * STEPS + step, facts)
            if axis.anyone(judge(case, [facts], step, "") is not None):
                return


def _number(returned: Any) -> float | None:
    try:
        return float(returned)
    except (TypeError, ValueError, RuntimeError):
        return None
