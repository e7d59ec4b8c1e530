"""Exercise 1: a pipelined step of a small model whose first and last rank hold the same matrix:
gradients held against one process's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ....config import ParallelConfig
from ....i18n import t
from ....layout.schedule import make_schedule
from ....parallel.mesh import Mesh
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from ..wrong import Look, look

WORDS, WIDTH, ROWS = 7, 4, 3
TOLERANCE = 1e-10  # of float64 sums in another order
MicroBatch = tuple[Tensor, Tensor]  # words in, words to come


@dataclass(frozen=True)
class Case:
    """`ranks` stages, one layer each; `m` micro-batches of ROWS words."""

    ranks: int
    m: int
    seed: int = 0

    def weights(self) -> tuple[Tensor, list[Tensor]]:
        """The tied matrix and every rank's own, alike on all ranks."""
        g = torch.Generator().manual_seed(self.seed)
        shapes = [(WORDS, WIDTH), *[(WIDTH, WIDTH)] * self.ranks]
        tied, *own = (torch.randn(s, generator=g, dtype=torch.float64) for s in shapes)
        return tied, own

    def micro_batches(self) -> list[MicroBatch]:
        """Words in and words to come of each micro-batch."""
        g = torch.Generator().manual_seed(self.seed + 1)
        return [tuple(torch.randint(WORDS, (2, ROWS), generator=g).unbind()) for _ in range(self.m)]

    def __str__(self) -> str:
        return t(f"p = {self.ranks}, m = {self.m}", f"p = {self.ranks}、m = {self.m}")


class Stage(nn.Module):
    """One rank's part: a layer; before it on the first rank the embedding, behind it on the last
    one the head and the mean loss. `tied` is the matrix that both ends hold, None between."""

    shape = (ROWS, WIDTH)  # of what travels between stages

    def __init__(self, case: Case, first: int, last: int) -> None:
        super().__init__()
        tied, own = case.weights()
        self.ends = first == 0, last == case.ranks - 1
        self.tied = nn.Parameter(tied) if any(self.ends) else None
        self.own = nn.ParameterList(nn.Parameter(w) for w in own[first : last + 1])

    def forward(self, x: Tensor | None, words: Tensor, to_come: Tensor) -> Tensor:
        """The next stage's input, or the mean loss of the micro-batch."""
        x = self.tied[words] if self.ends[0] else x
        for weight in self.own:
            x = torch.tanh(x @ weight)
        return F.cross_entropy(x @ self.tied.T, to_come) if self.ends[1] else x


@dataclass
class Facts:
    """One rank: how its gradients look, how the tied matrix's does, and the loss that it
    returned."""

    own: Look
    tied: Look | None
    loss: float | None
    norm: float
    right_loss: float
    right_norm: float


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """One step on every rank, in 1F1B's order, and the same on one process."""
    axis = Mesh(ParallelConfig(pp=int(os.environ["WORLD_SIZE"])))["pp"]
    for number, case in enumerate(cases):
        begin_case(number, patience, axis)
        stage, batches = Stage(case, axis.rank, axis.rank), case.micro_batches()
        made = make_schedule("1f1b", case.ranks, case.m)[axis.rank]
        actions = [(action.kind, action.micro) for action in made]
        loss = answer(stage, axis, actions, batches)
        saw(number, _look(case, axis.rank, stage, loss))


def _look(case: Case, rank: int, stage: Stage, loss: Any) -> Facts:
    whole = Stage(case, 0, case.ranks - 1)
    right = sum(whole(None, *batch) for batch in case.micro_batches()) / case.m
    right.backward()
    own = look(stage.own[0].grad, whole.own[rank].grad, TOLERANCE)
    tied = stage.tied is not None and look(stage.tied.grad, whole.tied.grad, TOLERANCE)
    grad, expected = stage.own[0].grad, whole.own[rank].grad
    return Facts(
        own,
        tied or None,
        float(loss) if isinstance(loss, int | float | Tensor) else None,
        0.0 if grad is None else grad.norm().item(),
        right.item(),
        expected.norm().item(),
    )


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Gradients of what only one rank has, then of what two have, then the loss."""
    return _own(case, facts) or _tied(facts) or _loss(facts)


def _own(case: Case, facts: list[Facts]) -> Failure | None:
    rank, bad = next(((r, f.own) for r, f in enumerate(facts) if f.own.kind != "right"), (0, None))
    if bad is None:
        return None
    expected = t(
        "gradients are those of the mean loss of the whole batch, as on one process.",
        "梯度等于整个批次平均损失的梯度，与单进程一致。",
    )
    if bad.kind == "scale" and all(f.own.kind == "scale" for f in facts):
        times = f"1/{1 / bad.times:.3g}" if 0 < bad.times < 1 else f"{bad.times:.3g}"
        came = t(
            f"on every rank {times} × the right ones, with m = {case.m}.",
            f"每个 rank 上都是正确值的 {times}{'' if bad.times < 1 else ' 倍'}，m = {case.m}。",
        )
        return Failure("step.factor", expected, came)
    came = t(
        f"on rank {rank} the layer's gradient is {bad.words(case.ranks)}.",
        f"rank {rank} 上这一层的梯度：{bad.words(case.ranks)}。",
    )
    return Failure("step.value", expected, came)


def _tied(facts: list[Facts]) -> Failure | None:
    wrong = [(r, f.tied) for r, f in enumerate(facts) if f.tied and f.tied.kind != "right"]
    if not wrong:
        return None
    rank, bad = wrong[0]
    return Failure(
        "step.tied",
        t(
            "both copies of the tied matrix get the gradient that it has on one process.",
            "共享矩阵的两份副本，梯度都与单进程一致。",
        ),
        t(
            f"the layers' gradients are right; the tied matrix's on rank {rank} is"
            f" {bad.words(len(facts))}.",
            f"各层的梯度正确；rank {rank} 上共享矩阵的梯度：{bad.words(len(facts))}。",
        ),
    )


def _loss(facts: list[Facts]) -> Failure | None:
    came, right = facts[-1].loss, facts[-1].right_loss
    if came is not None and abs(came - right) <= 1e-9 * abs(right):
        return None
    return Failure(
        "step.loss",
        t(
            f"the last rank returns the batch's mean loss, {right:.4f}.",
            f"最后一个 rank 返回整个批次的平均损失 {right:.4f}。",
        ),
        t("something else", "其他值")
        + (t(".", "。") if came is None else t(f": {came:.4f}.", f"：{came:.4f}。")),
    )


def draw(random: Random) -> list[Case]:
    """Two to four ranks; fewer micro-batches than ranks, and more."""
    return [
        Case(p, m, random.randint(1, 10**6))
        for p in (2, 3, 4)
        for m in (random.randint(2, p), random.randint(p + 1, 7))
    ]


EXERCISE = Exercise(
    check="pipeline_step",
    answer="pipeline_step",
    lab="lab08",
    run=run,
    judge=judge,
    columns=(
        Column("p", "p", lambda case, _: case.ranks),
        Column("m", "m", lambda case, _: case.m),
        Column("loss", "损失", lambda _, told: f"{told[0][-1].loss:.4f}"),
        Column("one process's", "单进程", lambda _, told: f"{told[0][-1].right_loss:.4f}"),
        Column(
            "gradient norm of rank 0's layer",
            "rank 0 上该层的梯度范数",
            lambda _, told: f"{told[0][0].norm:.4f}",
        ),
        Column(
            "of one process", "单进程的梯度范数", lambda _, told: f"{told[0][0].right_norm:.4f}"
        ),
    ),
    visible=(Case(2, 3), Case(2, 4, seed=5), Case(3, 2), Case(4, 6)),
    draw=draw,
)
