"""Exercise 2: ZeRO-2 gradients, each summed to its owners and freed in its hook; one norm for the
whole model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf, isclose, isfinite
from random import Random
from typing import Any

from torch import Tensor

from ....i18n import t
from ....measure.memory import storage_bytes
from ..exercise import Column, Exercise
from ..transfers import Transfers
from ..verdict import Failure
from ..watch import Watch
from .axis import ShardingAxis
from .optimizers import Optimizers, States, judge_states
from .seen import judge_sent, judge_weights, judge_wire, same_as_one_process, see_sent, see_weights
from .steps import Plain, StepFacts, in_step, run_cases
from .training import CONTROL_BYTES, RANKS, STEPS, Case, Model, flat, plain, train_alone, uneven


@dataclass
class Facts(StepFacts):
    """What one rank saw in one step. Bytes are live storages beyond those from before the step."""

    norm: float | None  # what `step` returned; None: no number
    right_norm: float
    kept: int  # bytes alive when the backward pass was over
    besides: int  # all that was alive then, weights and optimizer states left out
    most: int  # at the most, during it
    # the most in a plain backward pass whose gradients are thrown away at once
    plain: int
    whole_gradients: int  # parameters that still had their .grad then
    shard_elements: int  # bytes of elements in the optimizer's gradients,
    shard_storages: int  # and of the storages that these keep


def judge(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """Values, then what was alive, then who holds the states and what it cost."""
    return (
        judge_sent([f.sent for f in facts])
        or judge_norm(case, facts, step)
        or judge_weights(case, [f.weights for f in facts], step)
        or _kept(case, facts)
        or _most(case, facts)
        or judge_states(case, [f.states for f in facts])
        or judge_wire(case, [f.sent for f in facts], int(isfinite(facts[0].right_norm)))
    )


def judge_norm(case: Case, facts: list[Facts], step: int) -> Failure | None:
    """In the cases that are there for it: what `step` returned, on every rank."""
    if case.criterion not in ("norm", "overflow", "any-n"):
        return None
    right = facts[0].right_norm
    for rank, f in enumerate(facts):
        came = t(
            f"rank {rank} returned {f.norm if f.norm is None else format(f.norm, '.5g')}.",
            f"rank {rank} 返回了 {f.norm if f.norm is None else format(f.norm, '.5g')}。",
        )
        if not isfinite(right) and (f.norm is None or isfinite(f.norm)):
            return Failure(
                case.criterion,
                t(
                    "one infinite gradient, on whichever rank, makes the norm inf or nan on every"
                    " rank.",
                    "只要任一 rank 上有一个梯度是无穷大，每个 rank 返回的范数都是 inf 或 nan。",
                ),
                came,
            )
        if isfinite(right) and (f.norm is None or not isclose(f.norm, right, rel_tol=1e-5)):
            return Failure(
                case.criterion,
                t(
                    f"step returns the norm of the whole model's mean gradient, {right:.5g}, on"
                    " every rank.",
                    f"在每个 rank 上，step 都返回整个模型平均梯度的范数 {right:.5g}。",
                ),
                came,
            )
    return None


def _kept(case: Case, facts: list[Facts]) -> Failure | None:
    limit, worst = case.shard_bytes + case.largest_block, max(facts, key=lambda f: f.kept)
    # a rank alone does not know what the others hold
    total = sum(f.besides for f in facts) if len(facts) == case.ranks else inf
    if total < case.numel * case.itemsize:
        return Failure(
            "elsewhere",
            t(
                "when the backward pass is over, the ranks' shards of the gradients are there:"
                f" {case.numel * case.itemsize:,} bytes in all.",
                f"反向传播结束时，各 rank 的梯度分片都在，合计 {case.numel * case.itemsize:,}"
                " 字节。",
            ),
            t(f"only {total:,} bytes are.", f"只有 {total:,} 字节。"),
        )
    if worst.kept <= limit:
        return None
    expected = t(
        "when the backward pass is over, a rank holds its shards of the gradients,"
        f" {case.shard_bytes:,} bytes, and little else.",
        f"反向传播结束时，一个 rank 只留下自己的梯度分片，"
        f"{case.shard_bytes:,} 字节，此外几乎没有别的。",
    )
    came = t(
        f"{worst.kept:,} of {case.numel * case.itemsize:,} bytes of gradients are still alive",
        f"全部 {case.numel * case.itemsize:,} 字节的梯度中，还有 {worst.kept:,} 字节留着",
    )
    if not worst.whole_gradients and worst.shard_storages > limit:
        came += t(
            f": the optimizer's gradients have {worst.shard_elements:,} bytes of elements, but keep"
            f" {worst.shard_storages:,} bytes of storage.",
            f"：优化器的梯度只有 {worst.shard_elements:,} 字节的元素，却占着"
            f" {worst.shard_storages:,} 字节的存储。",
        )
        return Failure("gradients.view", expected, came)
    came += t(
        f"; {worst.whole_gradients} parameters still have their .grad.",
        f"；{worst.whole_gradients} 个参数的 .grad 还在。",
    )
    return Failure("gradients.kept", expected, came)


def _most(case: Case, facts: list[Facts]) -> Failure | None:
    if len(case.inner) < 4:  # of so few blocks, one with its buffer is nearly all
        return None
    limit, worst = (
        facts[0].plain + case.shard_bytes + 3 * case.largest_block // 2 + CONTROL_BYTES,
        max(f.most for f in facts),
    )
    if worst <= limit:
        return None
    return Failure(
        "gradients.peak",
        t(
            f"each gradient goes as it comes: at no moment more than {limit:,} bytes.",
            f"梯度来一个走一个：任何时刻都不超过 {limit:,} 字节。",
        ),
        t(
            f"at the most {worst:,} bytes were alive during the backward pass.",
            f"反向传播中最多时有 {worst:,} 字节存活。",
        ),
    )


def train(answer: Any, case: Case, axis: ShardingAxis) -> Iterator[Facts]:
    """Three steps with an answer's optimizer, and what this rank saw in each."""
    right, whole, model = train_alone(case), Plain.of(case).peak, case.model()
    optimizers = Optimizers(case)
    optimizers.watch = live = Watch(also=optimizers.bytes)
    model.be_seen_by(live.must_see)
    axis.begin_step(live)
    live.follow(model.parameters())
    with live:
        zero = answer(model, axis, optimizers.make)
    for step in range(STEPS):
        axis.begin_step(live)
        x, y = case.batch(step, axis.rank)
        known = [*model.parameters(), x, y]
        live.follow([x, y])
        before, hook = live.now(), case.spoil(model, step, axis.rank)
        live.begin_peak()
        with Transfers() as transfers, live:
            model(x, y).backward()
        held = _held(live, before, model, optimizers, known)
        if hook is not None:
            hook.remove()
        with transfers, live:
            norm = _number(zero.step(case.max_norm))
        with live, live.ignoring():
            weights = flat(model.weights())
        yield Facts(
            see_weights(weights, right, step, case),
            see_sent(axis, transfers),
            States.of(optimizers, live, known, sum(map(isfinite, right.norms[: step + 1]))),
            norm,
            right.norms[step],
            plain=whole,
            **held,
        )


def _held(
    live: Watch, before: int, model: Model, optimizers: Optimizers, known: list[Tensor]
) -> dict[str, int]:
    """The facts about a backward pass that is just over."""
    now, shards = live.now(), optimizers.gradients()
    return {
        "kept": now - before,
        "most": live.peak - before,
        "besides": now - storage_bytes([*known, *optimizers.tensors(), *optimizers.states()]),
        "whole_gradients": sum(p.grad is not None for p in model.parameters()),
        "shard_elements": sum(g.numel() * g.element_size() for g in shards),
        "shard_storages": storage_bytes(shards),
    }


def _number(returned: Any) -> float | None:
    try:
        return float(returned)
    except (TypeError, ValueError, RuntimeError):
        return None


def draw(random: Random) -> list[Case]:
    """Padding on either number of ranks; a limit that clips; an overflow in any step."""
    first, second = random.sample(RANKS, 2)
    overflow = {"max_norm": 1.0, "overflow_at": random.randint(0, 2)}
    return [
        plain(random, first, 5),
        uneven(random, first, 3),
        plain(random, first, 2, criterion="norm", max_norm=random.choice([0.1, 0.3, 0.7])),
        plain(random, first, 2, criterion="overflow", **overflow),
        uneven(random, second, 3, "any-n", optimizer=random.choice(["sgd", "adamw"]), max_norm=0.5),
    ]


def _norms(_: Case, told: list[list[Facts]]) -> str:
    norms = [facts[0].norm for facts in told]
    return " ".join("—" if norm is None else f"{norm:.3g}" for norm in norms)


EXERCISE = Exercise(
    check="zero2",
    answer="Zero2",
    lab="lab06",
    run=partial(run_cases, train, judge, STEPS),
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("parameters", "参数个数", lambda case, _: f"{case.numel:,}"),
        Column(
            "all gradients, bytes",
            "全部梯度（字节）",
            lambda case, _: f"{case.numel * case.itemsize:,}",
        ),
        Column(
            "at the most, in the backward pass",
            "反向传播中最多时",
            lambda _, told: f"{max(f.most for f in told[-1]):,}",
        ),
        Column(
            "a plain backward pass that keeps none",
            "一个梯度也不留的反向传播",
            lambda _, told: f"{told[-1][0].plain:,}",
        ),
        Column(
            "left after it",
            "反向传播之后留下的",
            lambda _, told: f"{max(f.kept for f in told[-1]):,}",
        ),
        Column("1/N", "1/N", lambda case, _: f"{case.numel * case.itemsize / case.ranks:,.0f}"),
        Column(
            "sent by a rank", "每个 rank 实发", lambda _, told: f"{told[-1][0].sent.wire_bytes:,}"
        ),
        Column("norms returned", "返回的范数", _norms),
    ),
    visible=(
        Case(3, 12, (12,) * 5, seed=1),
        Case(3, 8, (11, 9, 7), "padding", gain=True, seed=2),
        Case(3, 12, (12, 9), "norm", max_norm=0.5, seed=3),
        Case(3, 12, (12, 9), "overflow", max_norm=1.0, overflow_at=1, seed=4),
        Case(4, 9, (10, 7, 11), "any-n", "adamw", gain=True, max_norm=1.0, seed=5),
    ),
    draw=draw,
    moments=STEPS,
    moment=in_step,
    lines=same_as_one_process,
)
