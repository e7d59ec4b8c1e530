"""Exercise 2: a schedule that counts updates, in a real loop with accumulation, skipped steps and a
resumption; judged on the rates that the weights got."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ....i18n import t
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from .right import right_factor
from .small import WatchedSGD

PEAKS, TOLERANCE, WIDTH = (0.2, 0.05), 1e-9, 5


class Case(NamedTuple):
    """`epochs` times `batches` micro-batches, `group` to an update; the gradients of attempt number
    `overflow` are not finite; after attempt `resume` the run goes on from its state, elsewhere."""

    batches: int
    epochs: int
    group: int
    overflow: int | None = None
    resume: int | None = None
    seed: int = 0

    def __str__(self) -> str:
        words = [
            t(
                f"{self.epochs} × {self.batches} micro-batches, {self.group} to an update",
                f"{self.epochs} × {self.batches} 个微批次，每次更新 {self.group} 个",
            )
        ]
        if self.overflow is not None:
            words.append(t(f"attempt {self.overflow} overflows", f"第 {self.overflow} 次尝试上溢"))
        if self.resume is not None:
            words.append(
                t(f"resumed after attempt {self.resume}", f"第 {self.resume} 次尝试之后断点续训")
            )
        return t(", ", "，").join(words)

    @property
    def total(self) -> int:
        """Updates in the whole run."""
        return self.batches * self.epochs // self.group

    def micro_batches(self) -> list[tuple[Tensor, Tensor]]:
        """All of them, in order, (4, 5) and (4, 5), float64."""
        generator = torch.Generator().manual_seed(self.seed)
        found = []
        for number in range(self.batches * self.epochs):
            x, y = torch.randn(2, 4, WIDTH, generator=generator, dtype=torch.float64)
            if number // self.group == self.overflow and number % self.group == 0:
                x[0, 0] = inf
            found.append((x, y))
        return found


class Regression(nn.Module):
    """Two layers, float64; `(x, y)` → the mean squared error."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.body, self.head = (
            nn.Parameter(torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64) / 3)
            for _ in range(2)
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return (torch.tanh(x @ self.body) @ self.head - y).square().mean()

    def groups(self) -> list[dict[str, Any]]:
        """For an optimizer, each with its peak rate."""
        pairs = zip((self.body, self.head), PEAKS, strict=True)
        return [{"params": [parameter], "lr": peak} for parameter, peak in pairs]


class Scaler:
    """What the answer is given: `scaled(loss)`, and `step(optimizer)`, which says whether it
    stepped."""

    scale = 1024.0

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to call backward on."""
        return loss * self.scale

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """One optimizer step with the true gradients; none where some number is not finite."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in parameters if p.grad is not None]
        if not all(gradient.isfinite().all() for gradient in gradients):
            return False
        torch._foreach_div_(gradients, self.scale)
        optimizer.step()
        return True


@dataclass
class Facts:
    """The rates of every applied update, by parameter group; the totals that the factor was asked
    with; how far the last weights are off."""

    rates: list[tuple[float, ...]]
    totals: set[int]
    off: float


def _factor(case: Case, totals: set[int]) -> Callable[[int, int], float]:
    def factor(update: int, total: int) -> float:
        totals.add(total)
        return right_factor("linear", update, total, max(1, case.total // 4), 0.1, 0)

    return factor


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Train each case, beside a plain loop that knows what is right."""
    for number, case in enumerate(cases):
        begin_case(number, patience)
        facts = Facts([], set(), inf)

        def begin(model: Regression, case: Case = case, facts: Facts = facts) -> Any:
            optimizer, factor = WatchedSGD(model.groups(), facts.rates), _factor(case, facts.totals)
            plan = (case.batches, case.epochs, case.group)
            return answer(model, optimizer, Scaler(), factor, *plan)

        model = Regression(case.seed)
        driven = begin(model)
        for at, (x, y) in enumerate(case.micro_batches(), 1):
            driven.micro_batch(x, y)
            if case.resume is not None and at == (case.resume + 1) * case.group:
                saved = _written_and_read([model.state_dict(), driven.state_dict()])
                model = Regression(case.seed + 1)
                model.load_state_dict(saved[0])
                driven = begin(model)
                driven.load_state_dict(saved[1])
        right = torch.cat([p.flatten() for p in _right_run(case)[1].parameters()])
        came = torch.cat([p.flatten() for p in model.parameters()])
        facts.off = ((came - right).norm() / right.norm()).item()
        saw(number, facts)
        if judge(case, [facts]):
            return


def _written_and_read(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def _right_run(case: Case) -> tuple[list[tuple[float, ...]], Regression]:
    rates, model, scaler = [], Regression(case.seed), Scaler()
    optimizer, factor, micro = (
        WatchedSGD(model.groups(), rates),
        _factor(case, set()),
        case.micro_batches(),
    )
    bounds = [*range(0, len(micro) + 1, case.group)]
    for begin, end in pairwise(bounds):
        optimizer.zero_grad()
        for x, y in micro[begin:end]:
            scaler.scaled(model(x, y) / case.group).backward()
        share = factor(len(rates), case.total)
        for group, peak in zip(optimizer.param_groups, PEAKS, strict=True):
            group["lr"] = peak * share
        scaler.step(optimizer)
    return rates, model


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """How many updates there were, then their rates, then where the weights came to."""
    found, (right, _model) = facts[0], _right_run(case)
    if len(found.rates) != len(right):
        return Failure(
            "run.count",
            t(
                f"{len(right)} updates: one for every {case.group} micro-batches, skipped ones left"
                " out.",
                f"{len(right)} 次更新：每 {case.group} 个微批次一次，跳过的不算。",
            ),
            str(len(found.rates)),
        )
    for update, (came, want) in enumerate(zip(found.rates, right, strict=True)):
        if not all(abs(a - b) < TOLERANCE for a, b in zip(came, want, strict=True)):
            return Failure(_kind(case, found, update), *_words(update, came, want))
    if not found.off < TOLERANCE:
        return Failure(
            "run.weights" if case.resume is None else "run.resume",
            t(
                "with these rates the weights come to where a plain loop brings them.",
                "用这些学习率，权重应与普通循环训练的结果一致。",
            ),
            t(
                f"the rates are right, but at the end the weights are off by {found.off:.2g}.",
                f"学习率正确，但最后权重的相对偏差为 {found.off:.2g}。",
            ),
        )
    return None


def _kind(case: Case, found: Facts, update: int) -> str:
    shares = [rate / peak for rate, peak in zip(found.rates[update], PEAKS, strict=True)]
    if not max(shares) - min(shares) < TOLERANCE and case.resume is None:
        return "run.groups"
    if found.totals - {case.total}:
        return "run.total"
    if case.resume is not None and update > case.resume - (case.overflow is not None):
        return "run.resume"
    if case.overflow is not None and update >= case.overflow:
        return "run.skip"
    return "run.order" if case.group == 1 else "run.micro"


def _words(update: int, came: tuple[float, ...], want: tuple[float, ...]) -> tuple[str, str]:
    a, b = (" · ".join(f"{rate:.4f}" for rate in rates) for rates in (want, came))
    return (
        t(
            f"update {update} (from 0) moves the two groups with rates {a}.",
            f"第 {update} 次更新（从 0 数起）移动两个参数组的学习率是 {a}。",
        ),
        t(f"{b}", f"实际为 {b}"),
    )


def draw(random: Random) -> list[Case]:
    """Group sizes that epochs do not divide, an overflow, a resumption, all at once."""

    def seed() -> int:
        return random.randint(1, 10**6)

    group = random.randint(2, 4)
    batches = random.choice([n for n in range(3, 8) if n % group])
    epochs = 2 * group
    total = batches * 2
    skip, stop = random.randint(1, total - 3), random.randint(1, total - 3)
    return [
        Case(random.randint(6, 12), 1, 1, seed=seed()),
        Case(batches, epochs, group, seed=seed()),
        Case(batches, epochs, group, skip, None, seed()),
        Case(batches, epochs, group, None, stop, seed()),
        Case(batches, epochs, group, 1, random.randint(3, total - 2), seed()),
    ]


EXERCISE = Exercise(
    check="scheduled_run",
    answer="ScheduledRun",
    lab="lab13",
    run=run,
    judge=judge,
    columns=(
        Column("micro-batches", "微批次", lambda case, _: case.batches * case.epochs),
        Column("updates planned", "计划更新", lambda case, _: case.total),
        Column("updates applied", "实际更新", lambda _, told: len(told[0][0].rates)),
        Column(
            "rates that the weights got (first group)",
            "权重得到的学习率（第一组）",
            lambda _, told: " ".join(f"{rates[0]:.3f}" for rates in told[0][0].rates),
        ),
    ),
    visible=(
        Case(8, 1, 1),
        Case(8, 3, 3, seed=1),
        Case(8, 2, 2, overflow=3, seed=2),
        Case(8, 2, 2, resume=4, seed=3),
        Case(9, 2, 2, 1, 5, seed=4),
    ),
    draw=draw,
)
