"""Exercise 2: cross-entropy with a z-loss over a vocabulary that the ranks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, isfinite
from random import Random
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ....i18n import t
from ....layout.stages import part_of
from ....model import IGNORED
from ....parallel.comm import Axis
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent, see, waited_axis
from ..wrong import Look, look, worst

Answer = Callable[[Tensor, Tensor, int, Axis, float], Tensor]
TOLERANCE = 1e-9
ITEM = 8  # bytes of a float64


@dataclass(frozen=True)
class Case:
    """One loss. `criterion`: the one thing that this case is there to show."""

    ranks: int
    vocab: int
    tokens: int = 6
    z: float = 0.0
    ignored: int = 0
    scale: float = 1.0
    criterion: str | None = None
    seed: int = 0

    def tensors(self) -> tuple[Tensor, Tensor]:
        """All logits, and targets of which the first `ignored` count for nothing."""
        generator = torch.Generator().manual_seed(self.seed)
        logits = torch.randn(self.tokens, self.vocab, generator=generator, dtype=torch.float64)
        targets = torch.randint(self.vocab, (self.tokens,), generator=generator)
        targets[: self.ignored] = IGNORED
        return self.scale * logits, targets

    def __str__(self) -> str:
        return t(
            f"N = {self.ranks}, V = {self.vocab}, z = {self.z:g}, ignored targets: {self.ignored}",
            f"N = {self.ranks}、V = {self.vocab}、z = {self.z:g}、忽略的目标：{self.ignored}",
        )


@dataclass
class Facts:
    """One rank: its loss against the right one, the gradient of its logits, and what was sent."""

    loss: float
    right: float
    gradient: Look
    forward: Sent
    backward: Sent


def right_loss(logits: Tensor, targets: Tensor, z: float) -> Tensor:
    """One process's: the sum over targets of cross-entropy + z · (log Z)²."""
    loss = F.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
    return loss + z * logits.logsumexp(-1)[targets != IGNORED].square().sum()


def run(answer: Answer, cases: Sequence[Case], patience: float) -> None:
    """Each case's loss and gradient, with right `operators` at hand."""
    if hasattr(answer, "__globals__"):
        answer.__globals__["operators"] = reference
    plain, axis = waited_axis("all_reduce", "all_gather")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        saw(number, _examine(answer, case, axis))


def _examine(answer: Answer, case: Case, axis: Any) -> Facts:
    logits, targets = case.tensors()
    logits.requires_grad_()
    right = right_loss(logits, targets, case.z)
    right.backward()
    start, width = part_of(case.vocab, case.ranks, axis.rank)
    mine = logits.detach()[:, start : start + width].clone().requires_grad_()
    axis.begin()
    with Transfers() as transfers:
        loss = answer(mine, targets.clone(), start, axis, case.z)
    forward = see(axis, transfers)
    axis.begin()
    scalar = isinstance(loss, Tensor) and loss.numel() == 1
    with Transfers() as transfers:
        if scalar and loss.requires_grad:
            loss.sum().backward()
    backward = see(axis, transfers)
    came = torch.zeros_like(mine) if mine.grad is None else mine.grad
    gradient = look(came, logits.grad[:, start : start + width], TOLERANCE)
    return Facts(loss.item() if scalar else float("nan"), right.item(), gradient, forward, backward)


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Transfers, the loss, its gradient, and how much was sent for them."""
    failure = judge_sent([sent for f in facts for sent in (f.forward, f.backward)])
    return failure or _loss(case, facts) or _gradient(case, facts) or _bytes(case, facts)


def _loss(case: Case, facts: list[Facts]) -> Failure | None:
    for rank, f in enumerate(facts):
        if not isfinite(f.loss) or not isclose(f.loss, f.right, rel_tol=TOLERANCE):
            return Failure(
                case.criterion or "vocab.value",
                t(
                    f"the loss sum is {f.right:.6f} on every rank.",
                    f"每个 rank 上，损失之和都是 {f.right:.6f}。",
                ),
                t(f"rank {rank} has {f.loss:.6f}.", f"rank {rank} 得到 {f.loss:.6f}。"),
            )
    return None


def _gradient(case: Case, facts: list[Facts]) -> Failure | None:
    rank, seen = worst(f.gradient for f in facts)
    if seen.kind == "right":
        return None
    return Failure(
        case.criterion or "vocab.gradient",
        t(
            "the gradient of a rank's logits is its part of one process's.",
            "每个 rank 的 logits 的梯度，就是单进程结果里它那一段。",
        ),
        t(
            f"the loss is right; the gradient on rank {rank} is {seen.words(case.ranks)}.",
            f"损失正确；rank {rank} 上的梯度：{seen.words(case.ranks)}。",
        ),
    )


def _bytes(case: Case, facts: list[Facts]) -> Failure | None:
    most = 3 * ITEM * case.tokens
    sent = max(sum(f.forward.bytes.values()) for f in facts)
    back = max(sum(f.backward.bytes.values()) for f in facts)
    if sent > most:
        return Failure(
            "vocab.bytes",
            t(f"three numbers a token: {most} bytes.", f"每个词元三个数：{most} 字节。"),
            t(f"{sent} bytes were handed over.", f"交出了 {sent} 字节。"),
        )
    if back:
        return Failure(
            "vocab.backward",
            t("the backward pass sends nothing.", "反向传播不发送任何东西。"),
            t(f"it handed over {back} bytes.", f"它交出了 {back} 字节。"),
        )
    return None


def draw(random: Random) -> list[Case]:
    """For each number of ranks a plain case first, then one for each thing that goes wrong."""
    cases = []
    for n in (3, 4):
        kinds: list[dict[str, Any]] = [
            {"vocab": n * random.randint(2, 5)},
            {"vocab": n * random.randint(2, 5) + random.randint(1, n - 1), "criterion": "uneven"},
            {"vocab": 4 * n, "ignored": random.randint(1, 3), "criterion": "ignored"},
            {"vocab": 3 * n, "z": random.choice([0.01, 0.1]), "criterion": "z-term"},
            {"vocab": 2 * n, "scale": 1000.0, "criterion": "large"},
        ]
        for kind in kinds:
            seed = random.randint(1, 10**6)
            cases.append(Case(n, tokens=random.randint(5, 12), seed=seed, **kind))
    return cases


EXERCISE = Exercise(
    check="vocab_loss",
    answer="vocab_loss",
    lab="lab07",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column("words V", "词数 V", lambda case, _: case.vocab),
        Column("tokens", "词元数", lambda case, _: case.tokens),
        Column("z", "z", lambda case, _: f"{case.z:g}"),
        Column("loss sum", "损失之和", lambda _, told: f"{told[0][0].loss:.4f}"),
        Column(
            "bytes a rank hands over",
            "每个 rank 交出的字节",
            lambda _, told: sum(told[0][0].forward.bytes.values()),
        ),
        Column("all logits, bytes", "全部 logits（字节）", lambda c, _: ITEM * c.tokens * c.vocab),
    ),
    visible=(
        Case(4, 16),
        Case(4, 18, criterion="uneven"),
        Case(4, 16, ignored=2, criterion="ignored"),
        Case(4, 16, z=0.01, criterion="z-term"),
        Case(4, 12, scale=1000.0, criterion="large"),
        Case(3, 7, z=0.1, ignored=1),
    ),
    draw=draw,
)


def reference(axis: Axis) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Right operators (enter, leave)."""

    def summed(tensor: Tensor) -> Tensor:
        total = tensor.contiguous().clone()
        axis.all_reduce(total, purpose="activation").wait()
        return total

    class Enter(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return summed(gradient)

    class Leave(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, summand: Tensor) -> Tensor:
            return summed(summand)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    return Enter.apply, Leave.apply
