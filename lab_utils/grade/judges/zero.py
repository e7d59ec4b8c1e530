"""Lab 06: three stages of ZeRO, judged on the weights that came out, on what the grader carried
between the ranks, and on the memory that the kernel counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch

from ...course.checks.verdict import Failure
from ...i18n import t
from ..crew import Seat
from ..hub import Hub, Passed, Trouble
from . import held
from .judge import Criterion, Judge, Outcomes, not_done
from .training import BEGINS, LARGE_SAMPLE, Run, Training

CPU_S = 5.0  # a right answer takes up to 0.3 on one core of 2026
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}  # of the way that the weights moved
CLIPPED = 1e-5  # clipping by norm + 1e-6, as torch does, is as good as by the norm
CONTROL_BYTES = 128  # a step may also send a number or two: a norm, a flag
LARGE = dict(width=128, inner=(192,) * 12, large=True, steps=2)


def draw(stage: int, random: Random) -> list[Training]:
    """Sizes that N divides and sizes that it does not, at N = 3 and 4, one with a slow rank; what
    the stage alone has to show; and a model so large that its memory can be seen."""
    make = partial(Training, f"zero{stage}", f"Zero{stage}")
    calls = []
    for n in random.sample((3, 4), 2):
        kind = dict(dtype=random.choice(["float32", "float64"]))
        width, inner = (n * random.choice([3, 4]) for _ in range(2))
        calls += [
            make(n, width, (inner,) * random.randint(3, 5), "weights", **kind),
            _uneven(make, n, random, slow=random.randrange(n), **kind),
        ]
    if stage == 2:
        n, m = random.sample((3, 4), 2)
        calls += [
            make(n, 3 * n, (2 * n,) * 2, "norm", max_norm=random.choice([0.1, 0.3, 0.7])),
            _uneven(make, m, random, "norm"),
            make(m, 3 * m, (m,) * 2, "overflow", max_norm=1.0, overflow_at=random.randint(0, 2)),
        ]
    optimizer = "sgd" if stage == 3 else "momenta"
    return [*calls, make(4, criterion="memory", optimizer=optimizer, **LARGE)]


def _uneven(
    make: Callable[..., Training], n: int, random: Random, shows: str = "padding", **kind: Any
) -> Training:
    while True:
        inner = tuple(random.randint(6, 12) for _ in range(random.randint(3, 5)))
        optimizer = random.choice(["sgd", "adamw"])
        case = make(n, random.randint(5, 9), inner, shows, optimizer, gain=True, **kind)
        if case.numel % n:
            return case


def shows(stage: int, case: Training) -> list[str]:
    """The criteria that a call shows."""
    if case.large:
        return [one.name for one in held.CRITERIA[stage]]
    return [case.criterion, "traffic"] if case.overflow_at is None else [case.criterion]


def examine(stage: int, case: Training, seats: list[Seat], random: Random) -> Outcomes | Trouble:
    """Some steps of training."""
    run = Run(case, seats, random)
    hub = Hub(seats, run.orders(), run.gate, cpu_s=CPU_S, slow=case.slow)
    came = hub.run()
    if isinstance(came, Trouble):
        return came
    if (rank := run.unfinished()) is not None:
        return not_done(rank)
    weights, norms = run.right()
    wrong = _never_waited(hub) or _wrong_weights(run, weights, norms)
    own = wrong
    if case.criterion in ("norm", "overflow"):  # elsewhere it is no matter
        uneven = case.numel % case.ranks  # what is wrong with the weights then is another criterion
        own = _wrong_norms(run, norms[:1]) if uneven else wrong or _wrong_norms(run, norms)
    if case.large:
        found = {one.name: wrong or held.judge(one.name, run) for one in held.CRITERIA[stage]}
    else:
        found = {case.criterion: own}
        if "traffic" in shows(stage, case):
            found["traffic"] = wrong or _wrong_traffic(stage, case, hub)
    return {name: failure and failure._replace(case=str(case)) for name, failure in found.items()}


def _never_waited(hub: Hub) -> Failure | None:
    ops = sorted({op for rank in range(len(hub.passed)) for op in hub.never_waited(rank)})
    if not ops:
        return None
    return Failure(
        "never-waited",
        t("every collective is waited for.", "每次集合通信都要等待其完成。"),
        t(f"{', '.join(ops)} was not waited for.", f"{'、'.join(ops)} 没有等待。"),
    )


def _wrong_weights(
    run: Run, weights: list[list[torch.Tensor]], norms: list[float]
) -> Failure | None:
    case = run.case
    tolerance = max(TOLERANCE[case.dtype], CLIPPED if np.isfinite(case.max_norm) else 0.0)
    for step in range(1, case.steps + 1):
        want, start = (_flat(run, [w.numpy() for w in weights[s]]) for s in (step, 0))
        for rank in range(case.ranks):
            came = _flat(run, _shown_weights(run, rank, step))
            way = np.linalg.norm(want - start) or 1.0
            off = np.linalg.norm(came - want) / way if came.shape == want.shape else np.inf
            if not off <= tolerance:
                return Failure(
                    "weights",
                    t(
                        "after every step each rank's weights are those of one process.",
                        "每一步之后，每个 rank 的权重都与单进程一致。",
                    ),
                    t(
                        f"after step {step} rank {rank} is off by {off:.2g} of the way that they"
                        " should have moved.",
                        f"第 {step} 步之后，rank {rank} 的偏差是应移动距离的 {off:.2g} 倍。",
                    ),
                )
    return None


def _shown_weights(run: Run, rank: int, step: int) -> list[np.ndarray]:
    """As a rank had them after `step` steps, in the order of the model's parameters."""
    if run.case.do != "zero3":
        shown = run.shown[rank, step - 1, "step over"]
        return shown[1:] if run.case.do == "zero2" else shown
    # those that its blocks computed with afterwards; the last update shows in one more forward pass
    found = []
    for block in range(len(run.case.inner)):
        into, scale, back, *gain = run.shown[rank, step, f"forward {block}"]
        found += [scale, *gain, into, back]
    return found


def _flat(run: Run, arrays: Iterable[np.ndarray]) -> np.ndarray:
    """End to end, as many elements of each as were shown."""
    sample = LARGE_SAMPLE if run.case.large else None
    return np.concatenate([np.asarray(a, np.float64).reshape(-1)[:sample] for a in arrays])


def _wrong_norms(run: Run, norms: list[float]) -> Failure | None:
    for step, right in enumerate(norms):
        for rank in range(run.case.ranks):
            came = float(run.shown[rank, step, "step over"][0][0])
            finite = bool(np.isfinite(right))
            if np.isclose(came, right, rtol=1e-5) if finite else not np.isfinite(came):
                continue
            return Failure(
                "norm",
                t(
                    f"step returns {right:.5g}, the norm of the whole model's mean gradient, on"
                    " every rank; after an overflow inf or nan.",
                    f"step 在每个 rank 上都返回整个模型平均梯度的范数 {right:.5g}；"
                    "溢出时返回 inf 或 nan。",
                ),
                t(f"rank {rank} returned {came:.5g}.", f"rank {rank} 返回了 {came:.5g}。"),
            )
    return None


def _wrong_traffic(stage: int, case: Training, hub: Hub) -> Failure | None:
    """One reduce-scatter and one or (stage 3) two all-gathers of the model in each step."""
    n, share = case.ranks, (case.ranks - 1) / case.ranks
    gathers = 2 if stage == 3 else 1
    most = (1 + gathers) * (n - 1) * case.shard_bytes + CONTROL_BYTES
    least = share * (1 + gathers) * case.nbytes
    if stage == 3:  # a block that goes back right after it has gone forward may stay
        least -= share * max(case.inner) * (2 * case.width + 2) * case.itemsize
    for step in range(case.steps):
        sent = [sum(map(partial(_wire, n), _of_step(hub, rank, step))) for rank in range(n)]
        if max(sent) <= most and sum(sent) / n >= least:
            continue
        ops = sorted({p.op for p in _of_step(hub, 0, step)} - {"wait", "gate"})
        return Failure(
            "traffic",
            t(
                f"between {least:,.0f} and {most:,} bytes from each rank in a step: a"
                f" reduce-scatter and {gathers} all-gather{'s' if gathers > 1 else ''} of the"
                " model.",
                f"每个 rank 每步发送 {least:,.0f} 到 {most:,} 字节："
                f"整个模型的一次 reduce-scatter 和 {gathers} 次 all-gather。",
            ),
            t(
                f"{max(sent):,.0f} bytes, by {', '.join(ops)}.",
                f"{max(sent):,.0f} 字节，通过 {'、'.join(ops)}。",
            ),
        )
    return None


def _wire(n: int, passed: Passed) -> float:
    """What a rank sends for it with a ring."""
    payload = passed.nbytes * (n if passed.op == "all_gather" else 1)
    factor = {"all_reduce": 2 * (n - 1) / n, "send": 1.0, "wait": 0.0, "receive": 0.0, "gate": 0.0}
    return payload * factor.get(passed.op, (n - 1) / n)


def _of_step(hub: Hub, rank: int, step: int) -> list[Passed]:
    passed = hub.passed[rank]
    begins = [n for n, p in enumerate(passed) if p.words.get("gate") in BEGINS]
    return passed[begins[step] : (begins + [len(passed)])[step + 1]]


def _judge(stage: int, *own: Criterion) -> Judge:
    return Judge(
        check=f"zero{stage}",
        answer=f"Zero{stage}",
        criteria=(
            Criterion(
                "weights",
                "every weight, on every rank, as one process trains it, at N = 3 and 4",
                "N = 3 和 4 时，每个 rank 上的每个权重都与单进程一致",
            ),
            Criterion("padding", "sizes that N does not divide", "N 不能整除的大小"),
            *own,
            *held.CRITERIA[stage],
            Criterion("traffic", "no byte more on the wire than it takes", "通信量一个字节也不多"),
        ),
        draw=partial(draw, stage),
        examine=partial(examine, stage),
        shows=partial(shows, stage),
    )


ZERO1 = _judge(1)
ZERO2 = _judge(
    2,
    Criterion(
        "norm", "the norm of the whole model, and clipping by it", "整个模型的范数，并按它裁剪"
    ),
    Criterion(
        "overflow",
        "an overflow anywhere skips the step everywhere",
        "任何一处溢出，所有 rank 都跳过这一步",
    ),
)
ZERO3 = _judge(3)
