"""Lab 05, exercise 3: buckets that leave while the backward pass goes on.

In the backward pass the rank asks for a number before each block, and cannot go on without it
(inside/chain.py). A bucket that came before the last number was asked for left before the last
gradient existed. And until then nothing that was sent is answered: whoever waits, stands; when all
do, they are let on, and their order was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...course.checks.verdict import Failure
from ...i18n import t
from ..crew import Seat
from ..frames import Frame
from ..hub import Hub, Trouble
from ..inside.chain import Chain
from .judge import Criterion, Judge, Outcomes, not_done

CPU_S = 5.0
STEPS = 2
BATCH = 4
# of the gradients' norm: what another order of adding may change
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Buckets:
    """A chain of blocks; `unused`: who leaves the middle block out, "" or "everywhere" or "one
    rank"."""

    ranks: int
    width: int
    inner: tuple[int, ...]
    bucket_bytes: int
    criterion: str
    unused: str = ""
    tied: bool = False
    gain: bool = False
    dtype: str = "float32"
    slow: int | None = None

    def __str__(self) -> str:
        unused = {
            "": "",
            "everywhere": t(", a block unused on every rank", "、有一层在所有 rank 上都未用到"),
            "one rank": t(", a block unused on one rank", "、有一层在一个 rank 上未用到"),
        }[self.unused]
        return t(
            f"N = {self.ranks}, buckets of {self.bucket_bytes:,} bytes{unused}",
            f"N = {self.ranks}、每桶 {self.bucket_bytes:,} 字节{unused}",
        )

    def model(self, rank: int) -> Chain:
        """As a rank uses it."""
        model = Chain(self.width, self.inner, self.gain, self.dtype)
        model.twice = {0} if self.tied else set()
        if self.unused == "everywhere" or (self.unused == "one rank" and rank == 1):
            model.out = {len(self.inner) // 2}
        return model


@dataclass
class Step:
    """What one step was given, and what a rank did in it."""

    batches: dict[int, list[np.ndarray]] = field(default_factory=dict)  # by rank
    factors: dict[tuple[int, str], float] = field(default_factory=dict)  # by rank and block
    gradients: dict[int, list[np.ndarray]] = field(default_factory=dict)


class _Call:
    """The grader's side of one call."""

    def __init__(self, call: Buckets, random: Random) -> None:
        self.call, self.steps = call, [Step() for _ in range(STEPS)]
        self._numbers = np.random.default_rng(random.getrandbits(64))
        self.models = [call.model(rank) for rank in range(call.ranks)]
        self.weights = [
            self._draw(p.shape, max(1, p.shape[-1] if p.dim() else 1) ** -0.5)
            for p in self.models[0].parameters()
        ]
        self._step = [-1] * call.ranks
        self._working = [False] * call.ranks

    def orders(self) -> list[Frame]:
        """What each rank is told."""
        call = self.call
        return [
            Frame(
                dict(
                    do="bucketed",
                    answer="Bucketed",
                    rank=rank,
                    ranks=call.ranks,
                    width=call.width,
                    inner=call.inner,
                    gain=call.gain,
                    dtype=call.dtype,
                    twice=sorted(model.twice),
                    out=sorted(model.out),
                    bucket_bytes=call.bucket_bytes,
                    steps=STEPS,
                ),
                self.weights,
            )
            for rank, model in enumerate(self.models)
        ]

    def gate(self, rank: int, words: dict[str, Any], arrays: list[np.ndarray]) -> Frame:
        """Let a rank on."""
        if words["gate"] == "batch":
            self._step[rank] += 1
            self._working[rank] = True
            batch = [self._draw((BATCH, self.call.width)) for _ in range(2)]
            self.steps[self._step[rank]].batches[rank] = batch
            return Frame(0, batch)
        step = self.steps[self._step[rank]]
        if words["gate"] == "backward":
            if words["block"] == "0":
                self._working[rank] = False
            return Frame(self._factor(step, rank, str(words["block"])))
        if words["gate"] == "step over":
            # a parameter without a gradient sends its weights in its place
            step.gradients[rank] = [
                a if there else np.full_like(a, np.nan)
                for a, there in zip(arrays, words["there"], strict=True)
            ]
        return Frame(0)

    def working(self, rank: int) -> bool:
        """Whether its last gradient cannot exist yet."""
        return self._working[rank]

    def right(self, step: Step, rank: int) -> list[Tensor]:
        """A rank's own gradients."""
        model = self.models[rank]
        model.fill([torch.tensor(w) for w in self.weights])
        model.gate = lambda name: self._factor(step, rank, name)
        model.zero_grad()
        model(*map(torch.tensor, step.batches[rank])).backward()
        return [
            torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()
        ]

    def unfinished(self) -> int | None:
        """A rank that says it was done, and was not: did not come to every gate."""
        for rank, model in enumerate(self.models):
            blocks = set(range(len(self.call.inner))) - model.out
            for step in self.steps:
                asked = all((rank, str(block)) in step.factors for block in blocks)
                if not asked or rank not in step.gradients:
                    return rank
        return None

    def _factor(self, step: Step, rank: int, block: str) -> float:
        return step.factors.setdefault((rank, block), self._numbers.uniform(0.5, 2))

    def _draw(self, shape: Any, size: float = 1.0) -> np.ndarray:
        drawn = self._numbers.standard_normal(tuple(shape)) * size
        return np.asarray(drawn, self.call.dtype)


def draw(random: Random) -> list[Buckets]:
    """Blocks of many sizes, a block used twice, one that stays out, one bucket for all."""
    calls = []
    for n in (4, 3):
        dtype, size = random.choice([("float32", 4), ("float64", 8)])
        make = partial(_draw_one, random, n, dtype, size)
        calls += [
            make("mean"),
            make("mean", tied=True, gain=True, slow=random.randrange(n)),
            make("unused", unused="everywhere"),
            make("unused", unused="one rank"),
        ]
    last = calls[0]
    return [*calls, Buckets(3, last.width, last.inner[:2], 10**6, "one bucket")]


def _draw_one(
    random: Random, n: int, dtype: str, size: int, criterion: str, **kind: Any
) -> Buckets:
    inner = tuple(random.randint(5, 10) for _ in range(random.randint(6, 8)))
    limit = random.randint(110, 170) * size
    return Buckets(n, random.randint(6, 9), inner, limit, criterion, dtype=dtype, **kind)


def examine(case: Buckets, seats: list[Seat], random: Random) -> Outcomes | Trouble:
    """Two steps, judged on the gradients that came out and on what passed, in which order."""
    call = _Call(case, random)
    hub = Hub(seats, call.orders(), call.gate, call.working, cpu_s=CPU_S, slow=case.slow)
    came = hub.run()
    if isinstance(came, Trouble):
        if came.kind == "hung" and any(map(call.working, range(case.ranks))):
            return {name: _waited_early(case, came.words) for name in shows(case)}
        return came
    if (rank := call.unfinished()) is not None:
        return not_done(rank)
    outcomes: dict[str, Failure | None] = dict.fromkeys(shows(case))
    for number, step in enumerate(call.steps):
        passed = [_of_step(hub, rank, number) for rank in range(case.ranks)]
        wrong = _wrong_values(call, step) or _never_waited(hub)
        # who forgets 1/N has all else to show: that costs the mean alone
        other = wrong and _wrong_values(call, step, times=case.ranks) and wrong
        found = {
            case.criterion: wrong if case.criterion == "mean" else other,
            "bytes": other or _wrong_bytes(call, passed),
        }
        if "order" in outcomes:
            early = _waited_early(case, hub.early) if hub.early else None
            found["order"] = other or early or _left_late(case, passed)
        for name, failure in found.items():
            outcomes[name] = outcomes[name] or failure
    return {
        name: failure and failure._replace(case=str(case)) for name, failure in outcomes.items()
    }


def shows(case: Buckets) -> list[str]:
    """The criteria that a call shows; an only bucket is full with the last gradient."""
    return [case.criterion, "bytes", *(["order"] if case.criterion != "one bucket" else [])]


def _of_step(hub: Hub, rank: int, number: int) -> list[Any]:
    """What a rank did in a step, from its batch on."""
    passed = hub.passed[rank]
    begins = [n for n, p in enumerate(passed) if p.words.get("gate") == "batch"]
    return passed[begins[number] : (begins + [len(passed)])[number + 1]]


def _wrong_values(call: _Call, step: Step, times: int = 1) -> Failure | None:
    """`times`: how many times the mean is taken for right."""
    ranks = range(call.call.ranks)
    own = [torch.cat([g.flatten() for g in call.right(step, rank)]) for rank in ranks]
    right = sum(own) * (times / len(own))
    for rank in ranks:
        came = torch.cat([torch.tensor(a).flatten() for a in step.gradients[rank]])
        off = ((came - right).norm() / right.norm()).item() if came.shape == right.shape else 1.0
        if not off <= TOLERANCE[call.call.dtype]:
            return Failure(
                "gradient.value",
                t(
                    "every parameter.grad is the mean over the ranks, as one process computes it.",
                    "每个 parameter.grad 都是各 rank 的平均值，与单进程的结果一致。",
                ),
                t(
                    f"on rank {rank} they are off by {off:.2g} of their norm.",
                    f"rank {rank} 上的偏差是其范数的 {off:.2g} 倍。",
                ),
            )
    return None


def _never_waited(hub: Hub) -> Failure | None:
    if not any(hub.never_waited(rank) for rank in range(len(hub.passed))):
        return None
    return Failure(
        "overlap.never-waited",
        t("finish() waits for every bucket.", "finish() 要等待每一个桶。"),
        t("some were never waited for.", "有的桶始终没有等待。"),
    )


def _wrong_bytes(call: _Call, passed: list[list[Any]]) -> Failure | None:
    case, sizes = call.call, [w.nbytes for w in call.weights]
    payload, limit = sum(sizes), max(case.bucket_bytes, max(sizes))
    for rank, events in enumerate(passed):
        others = {p.op for p in events} - {"all_reduce", "wait", "gate"}
        sent = [p.nbytes for p in events if p.op == "all_reduce"]
        most = 2 * payload // case.bucket_bytes + 1  # two in a row hold more than one's limit
        if others or sum(sent) != payload or max(sent) > limit or len(sent) > most:
            named = f", {', '.join(sorted(others))}" if others else ""
            return Failure(
                "buckets.bytes",
                t(
                    f"{payload} bytes by axis.all_reduce, each gradient once, in at most {most}"
                    f" buckets of at most {limit} bytes.",
                    f"用 axis.all_reduce 传输 {payload} 字节，每个梯度一次；最多 {most} 个桶，"
                    f"每桶不超过 {limit} 字节。",
                ),
                t(
                    f"rank {rank} sent {sum(sent)} bytes in {len(sent)} all-reduces of up to"
                    f" {max(sent, default=0)}{named}.",
                    f"rank {rank} 用 {len(sent)} 次 all-reduce 发送了 {sum(sent)} 字节，"
                    f"最大的一次 {max(sent, default=0)}{named}。",
                ),
            )
    return None


def _left_late(case: Buckets, passed: list[list[Any]]) -> Failure | None:
    for rank, events in enumerate(passed):
        sent = [n for n, p in enumerate(events) if p.op == "all_reduce"]
        last = max(n for n, p in enumerate(events) if p.words.get("gate") == "backward")
        early = sum(n < last for n in sent)
        # a branch that stays out holds up those behind it
        enough = min(1 if case.unused else len(sent) // 2, len(sent) - 1)
        if early < enough:
            return Failure(
                "overlap.left-late",
                t(
                    "full buckets leave while the backward pass still makes gradients: at least"
                    f" {enough} of {len(sent)} before the first block's turn.",
                    "反向传播还在产生梯度时，装满的桶就已发出："
                    f"轮到第一层之前，{len(sent)} 个桶里至少发出 {enough} 个。",
                ),
                t(f"on rank {rank} {early} did.", f"rank {rank} 上只发出了 {early} 个。"),
            )
    return None


def _waited_early(case: Buckets, words: str) -> Failure:
    return Failure(
        "overlap.waited-early",
        t(
            "nothing is waited for before the last gradient exists.",
            "最后一个梯度出现之前，不等待任何一个桶。",
        ),
        words,
        str(case),
    )


BUCKETED = Judge(
    check="bucketed",
    answer="Bucketed",
    criteria=(
        Criterion(
            "mean",
            "the mean over the ranks, twice in a row, at N = 3 and 4",
            "各 rank 的平均值，连续两步，N = 3 和 4",
        ),
        Criterion("unused", "parameters that took no part", "没有参与的参数"),
        Criterion("one bucket", "one bucket for all", "只有一个桶"),
        Criterion(
            "bytes",
            "each gradient travels once, in buckets of the size asked for",
            "每个梯度只传一次，桶的大小符合要求",
        ),
        Criterion(
            "order",
            "buckets leave during the backward pass, and none is waited for in it",
            "桶在反向传播途中发出，途中不等待任何一个",
        ),
    ),
    draw=draw,
    examine=examine,
    shows=shows,
)
