"""Exercise 3: one whole step with a loss scale, on several ranks: accumulation, agreement,
unscaling, clipping, and a schedule that does not step when the weights do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t
from ....model import IGNORED
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..verdict import Failure
from ..waited_axis import Sent, judge_sent, see, waited_axis
from ..wrong import Look, look, worst
from .hurried import Scaler
from .short import WIDTH, WORDS, ShortModel

TOLERANCE, STEPS, RATE, SCALE, NO_CLIP = 1e-10, 3, 0.5, 2.0**35, 1e30
Micro = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """`micro` micro-batches on each rank; `uneven`: of very different numbers of targets that
    count; `overflow`: the step in which one number of rank 1's last micro-batch is enormous."""

    ranks: int
    micro: int = 2
    uneven: bool = False
    clip: float = NO_CLIP
    overflow: int | None = None
    seed: int = 0

    def __str__(self) -> str:
        words = [f"N = {self.ranks}", t(f"micro-batches: {self.micro}", f"微批次数：{self.micro}")]
        if self.uneven:
            words.append(t("uneven numbers of tokens", "词元数不等"))
        if self.clip < NO_CLIP:
            words.append(t(f"clip = {self.clip:g}", f"裁剪阈值 {self.clip:g}"))
        if self.overflow is not None:
            words.append(
                t(
                    f"overflow on rank 1 in step {self.overflow}",
                    f"rank 1 在第 {self.overflow} 步上溢",
                )
            )
        return t(", ", "，").join(words)

    def batch(self, step: int, rank: int) -> list[Micro]:
        """The micro-batches of a rank in a step."""
        found = []
        for number in range(self.micro):
            seed = hash((self.seed, step, rank, number)) % 2**31
            generator = torch.Generator().manual_seed(seed)
            x = torch.randn(8, WIDTH, generator=generator, dtype=torch.float64)
            targets = torch.randint(WORDS, (8,), generator=generator)
            if self.uneven:
                targets[1 + (3 * rank + 5 * number) % 8 :] = IGNORED
            if step == self.overflow and rank == 1 and number == self.micro - 1:
                x[0, 0] = torch.inf
            found.append((x, targets))
        return found


@dataclass
class Step:
    """One step of one rank. `moved`: how its weights changed, held against how they had to."""

    moved: Look
    late: bool
    returned: Any
    rate: float
    right_rate: float
    updates: list[Any]
    sent: Sent


def _parts(case: Case, axis: Any) -> tuple[Any, ...]:
    model = ShortModel(case.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    return model, optimizer, scheduler, Scaler(axis, SCALE)


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Some steps on every rank, beside one process that has all micro-batches."""
    plain, axis = waited_axis("all_reduce")
    for number, case in enumerate(cases):
        begin_case(number, patience, plain)
        here, alone, facts = _parts(case, axis), _parts(case, None), []
        for step in range(STEPS):
            axis.begin()
            here[3].begin()
            before = [_flat(parts[0]) for parts in (here, alone)]
            with Transfers() as transfers:
                returned = answer(*here, case.batch(step, axis.rank), case.clip, axis)
            sent = see(axis, transfers)
            every = [m for rank in range(case.ranks) for m in case.batch(step, rank)]
            _right_step(*alone, every, case.clip)
            looked = _moved(*(_flat(parts[0]) for parts in (here, alone)), *before)
            rates = [parts[2].get_last_lr()[0] for parts in (here, alone)]
            facts.append(Step(looked, here[3].late, returned, *rates, list(here[3].updates), sent))
        saw(number, facts)


def _flat(model: ShortModel) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def _moved(here: Tensor, alone: Tensor, before: Tensor, alone_before: Tensor) -> Look:
    if torch.equal(alone, alone_before):  # nothing may move: a factor would say nothing
        return look(here, alone, TOLERANCE)
    nowhere = torch.zeros_like(here)
    return look(here - before, alone - alone_before, TOLERANCE, before=nowhere)


def _right_step(
    model: Any, optimizer: Any, scheduler: Any, scaler: Any, every: list[Micro], clip: float
) -> None:
    total = sum((targets != IGNORED).sum() for _, targets in every)
    optimizer.zero_grad()
    for x, targets in every:
        (model(x, targets)[0] / total * scaler.scale).backward()
    gradients = [p.grad for p in model.parameters()]
    overflow = scaler.overflowed(gradients)
    if not overflow:
        torch._foreach_div_(gradients, scaler.scale)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
    scaler.update(overflow)


def judge(case: Case, facts: list[list[Step]], _: int = 0) -> Failure | None:
    """Transfers; then step by step weights, schedule, scaler."""
    failure = judge_sent([step.sent for rank in facts for step in rank])
    for number in range(STEPS):
        steps = [rank[number] for rank in facts]
        failure = failure or _weights(case, number, steps) or _rest(case, number, steps)
    return failure or _traffic([step for rank in facts for step in rank])


def _weights(case: Case, number: int, steps: list[Step]) -> Failure | None:
    rank, wrong = worst(step.moved for step in steps)
    if wrong.kind == "right":
        return None
    after = number == case.overflow
    later = number > (0 if case.overflow is None else case.overflow)
    rule = (
        "step.skip"
        if after
        else "step.order"
        if steps[rank].late
        else "step.cleared"
        if later and case.overflow is not None
        else "step.clip"
        if case.clip < NO_CLIP
        else "step.mean"
        if case.uneven
        else "step.cleared"
        if later
        else "step.gradient"
    )
    expected = (
        t(
            "no rank's weights move in a step that overflowed anywhere.",
            "任何地方上溢的一步，哪个 rank 的权重都不动。",
        )
        if after
        else t(
            "weights change as one process's do, which has all micro-batches.",
            "权重的变化与拿到全部微批次的单进程一致。",
        )
    )
    return Failure(
        rule,
        expected,
        t(
            f"step {number}, rank {rank}: {'weights' if after else 'changes'} are"
            f" {_words(wrong, case)}.",
            f"第 {number} 步，rank {rank}：权重{'' if after else '的变化'}{_words(wrong, case)}。",
        ),
    )


def _words(wrong: Look, case: Case) -> str:
    return (
        t("0: nothing moved", "为 0，没有移动") if wrong.kind == "old" else wrong.words(case.ranks)
    )


def _rest(case: Case, number: int, steps: list[Step]) -> Failure | None:
    overflow = number == case.overflow
    for rank, step in enumerate(steps):
        where = t(f"after step {number}, rank {rank}: ", f"第 {number} 步之后，rank {rank}：")
        if step.rate != step.right_rate:
            return Failure(
                "step.schedule",
                t(
                    f"a learning rate of {step.right_rate:g}: the schedule steps with each update.",
                    f"学习率为 {step.right_rate:g}：每次更新走一步调度。",
                ),
                where + t(f"{step.rate:g}.", f"{step.rate:g}。"),
            )
        if len(step.updates) != number + 1 or step.updates[-1] is not overflow:
            return Failure(
                "step.scaler",
                t(
                    "scaler.update is told once a step whether it overflowed.",
                    "每步调用一次 scaler.update，告诉它是否上溢。",
                ),
                where + t(f"it was told {step.updates}.", f"告诉它的是 {step.updates}。"),
            )
        if step.returned is not (not overflow):
            return Failure(
                "step.returns",
                t(
                    f"{not overflow}: whether the step was applied.",
                    f"{not overflow}：这一步是否真正更新了。",
                ),
                where + f"{step.returned!r}",
            )
    return None


def _traffic(steps: list[Step]) -> Failure | None:
    most = 8 * WIDTH * (WIDTH + WORDS) + 64
    worst_step = max(sum(step.sent.bytes.values()) for step in steps)
    if worst_step <= most:
        return None
    return Failure(
        "step.bytes",
        t(
            "gradients travel once a step, not once a micro-batch.",
            "梯度每步传一次，而不是每个微批次传一次。",
        ),
        t(
            f"{worst_step} bytes in a step, {most} are enough.",
            f"一步 {worst_step} 字节，{most} 就够。",
        ),
    )


def draw(random: Random) -> list[Case]:
    """Every kind, with other numbers."""
    n = random.choice((3, 4))

    def seed() -> int:
        return random.randint(1, 10**6)

    return [
        Case(n, random.randint(2, 4), seed=seed()),
        Case(n, random.randint(2, 4), uneven=True, seed=seed()),
        Case(n, clip=10 ** random.uniform(-2, -1), seed=seed()),
        Case(n, overflow=random.randrange(STEPS), seed=seed()),
        Case(n, 3, True, 0.05, 1, seed()),
    ]


EXERCISE = Exercise(
    check="amp_step",
    answer="amp_step",
    lab="lab04",
    run=run,
    judge=judge,
    columns=(
        Column("N", "N", lambda case, _: case.ranks),
        Column(
            "applied",
            "已更新",
            lambda _, told: "".join("·" if s.returned else "×" for s in told[0][0]),
        ),
        Column(
            "learning rates", "学习率", lambda _, told: " ".join(f"{s.rate:g}" for s in told[0][0])
        ),
        Column(
            "weights' error",
            "权重的偏差",
            lambda _, told: (
                "≤ 1e-10"
                if all(s.moved.off <= TOLERANCE for rank in told[0] for s in rank)
                else "?"
            ),
        ),
        Column(
            "bytes a step",
            "每步字节",
            lambda _, told: max(sum(s.sent.bytes.values()) for s in told[0][0]),
        ),
    ),
    visible=(
        Case(3),
        Case(3, uneven=True),
        Case(3, clip=0.05),
        Case(3, overflow=1),
        Case(4, 3, True, 0.05, 1),
    ),
    draw=draw,
)
