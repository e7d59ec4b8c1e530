"""Exercise 1 at work: a small GPT, an optimizer that looks at the gradients it is given, and the
bytes alive on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isclose
from typing import Any

import torch
from torch import Tensor

from ....config import TrainConfig
from ....i18n import t
from ....model import GPT, IGNORED
from ..live import LiveStorages
from ..ranks import begin_case, saw
from ..watch import Watch, watch_threads
from .alone import TOLERANCE, flat, off, told, worst

MicroBatch = tuple[Tensor, Tensor]
ROWS, SEQ, VOCAB = 4, 8, 32


@dataclass(frozen=True)
class Case:
    """`counts[i]` of micro-batch i's 32 targets count; `group` micro-batches to a step.
    `criterion`: what the case is there to show."""

    counts: tuple[int, ...]
    group: int
    criterion: str | None = None
    seed: int = 0

    def __str__(self) -> str:
        return t(
            f"micro-batches of {', '.join(map(str, self.counts))} counted tokens, groups of"
            f" {self.group}",
            f"各微批次计入损失的词元数为 {'、'.join(map(str, self.counts))}，每组 {self.group} 个",
        )

    @property
    def steps(self) -> int:
        """How many groups there are, the last one perhaps not full."""
        return -(-len(self.counts) // self.group)

    def groups(self, micro_batches: Sequence[MicroBatch]) -> list[Sequence[MicroBatch]]:
        """The micro-batches of each step."""
        return [micro_batches[i : i + self.group] for i in range(0, len(micro_batches), self.group)]

    def micro_batches(self) -> list[MicroBatch]:
        """Tokens and targets (4, 8), int64, with IGNORED where a target does not count."""
        generator = torch.Generator().manual_seed(self.seed)
        made = []
        for count in self.counts:
            tokens, targets = torch.randint(VOCAB, (2, ROWS, SEQ), generator=generator)
            targets.view(-1)[torch.randperm(ROWS * SEQ, generator=generator)[count:]] = IGNORED
            made.append((tokens, targets))
        return made

    def model(self) -> GPT:
        """The model with its first weights."""
        return GPT(
            TrainConfig.of("tiny", layers=2, hidden=16, heads=2, vocab=VOCAB, seq=SEQ).model,
            self.seed,
        )


@dataclass
class Step:
    """How far the gradient of one optimizer step is off the big batch's, and which mistake it looks
    like."""

    tokens: int
    off: float
    looks: str
    times: float  # the gradient's length along the right one


@dataclass
class Facts:
    """What was seen. Peaks are bytes of live storages beyond the model, at any operation."""

    steps: list[Step]
    passes: int  # forward passes of the model
    losses: str  # what was returned, in words
    right_losses: str
    losses_off: float
    peak: int
    one_peak: int  # of the micro-batch that takes most, its gradients added to others
    big_peak: int  # of the largest group as one batch
    gradient_bytes: int


class Recorder(torch.optim.SGD):
    """SGD that hands each step's gradients to `record` before it steps."""

    def __init__(self, model: GPT, record: Callable[[], None]) -> None:
        super().__init__(model.parameters(), lr=0.5)
        self.record = record

    def step(self, closure: Any = None) -> None:
        """As SGD's."""
        self.record()
        super().step(closure)


def run_cases(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """In the process of its own: each case once."""
    watch_threads()
    for number, case in enumerate(cases):
        begin_case(number, patience)
        saw(number, run(answer, case))


def run(answer: Any, case: Case) -> Facts:
    """One case: the answer's gradients, step by step, against those of big batches."""
    right_gradients, right_losses, alikes = train_on_big_batches(case)
    model, micro_batches, steps, passes = case.model(), case.micro_batches(), [], []
    tokens = [sum(case.counts[i : i + case.group]) for i in range(0, len(case.counts), case.group)]
    live, forward = Watch(), model.forward
    live.follow(x for pair in micro_batches for x in pair)

    def counted(*batch: Tensor) -> tuple[Tensor, Tensor]:
        live.must_see()
        passes.append(1)
        return forward(*batch)

    model.forward = counted

    def record() -> None:
        number, parameters = len(steps), list(model.parameters())
        with live.ignoring():
            if number >= case.steps:
                steps.append(Step(0, inf, "gradient", 0.0))
            elif all(p.grad is None for p in parameters):
                steps.append(Step(tokens[number], inf, "gradient.missing", 0.0))
            else:
                gradient = flat(
                    torch.zeros_like(p) if p.grad is None else p.grad for p in parameters
                )
                steps.append(
                    compare(gradient, right_gradients[number], alikes[number], tokens[number])
                )

    optimizer = Recorder(model, record)
    live.follow(model.parameters())
    before = live.now()
    live.begin_peak()
    with live:
        returned = answer(model, optimizer, list(micro_batches), case.group)
        if isinstance(returned, Iterator):
            returned = list(returned)
    peak = live.peak - before
    return Facts(
        steps,
        len(passes),
        told(returned),
        " ".join(f"{x:.4f}" for x in right_losses),
        _losses_off(returned, right_losses),
        peak,
        *plain_peaks(case),
        sum(p.nbytes for p in model.parameters()),
    )


@cache  # a launch may have many answers
def train_on_big_batches(
    case: Case,
) -> tuple[list[Tensor], list[float], list[dict[str, list[Tensor]]]]:
    """Gradient and mean loss of each step, had its group been one batch; and what usual mistakes
    would make of the gradient."""
    model, gradients, losses, alikes = case.model(), [], [], []
    parameters = list(model.parameters())
    for group in case.groups(case.micro_batches()):
        loss_sum, count = model(*map(torch.cat, zip(*group, strict=True)))
        gradients.append(flat(torch.autograd.grad(loss_sum / count, parameters)))
        losses.append((loss_sum / count).item())
        pairs = [(model(*micro_batch), micro_batch[1]) for micro_batch in group]
        own = [
            (flat(torch.autograd.grad(loss, parameters)), max(int(count), 1), targets.numel())
            for (loss, count), targets in pairs
        ]
        alikes.append(
            {
                "gradient.left-over": [
                    gradients[-1] + before / share
                    for before in gradients[-2:-1]
                    for share in (1, int(count))
                ],
                "gradient.ignored-counted": [
                    sum(gradient for gradient, _, _ in own)
                    / sum(positions for _, _, positions in own)
                ],
                "gradient.mean-of-means": [sum(gradient / count for gradient, count, _ in own)],
                "gradient.last-only": [own[-1][0]],
            }
        )
        with torch.no_grad():
            for parameter, part in zip(
                parameters, gradients[-1].split([p.numel() for p in parameters]), strict=True
            ):
                parameter -= 0.5 * part.view_as(parameter)
    return gradients, losses, alikes


def compare(came: Tensor, want: Tensor, alikes: dict[str, list[Tensor]], tokens: int) -> Step:
    """Where the gradient is wrong: the mistake that it looks like, its length set aside but where
    length is the mistake."""
    error, times = (
        off(came, want),
        (came.double() @ want.double() / (want.double() @ want.double())).item(),
    )
    if error <= TOLERANCE:
        return Step(tokens, error, "", times)
    exact = ("gradient.left-over", "gradient.ignored-counted")
    looks = next(
        (name for name in exact if any(off(came, like) <= TOLERANCE for like in alikes[name])), None
    )
    if looks is None and _along(came, want):
        undivided = tokens > 1 and isclose(times, tokens, rel_tol=1e-3)
        looks = "gradient.undivided" if undivided else "gradient.scale"
    looks = looks or next(
        (
            name
            for name, likes in alikes.items()
            if name not in exact and any(_along(came, like) for like in likes)
        ),
        "gradient",
    )
    return Step(tokens, error, looks, times)


def _along(came: Tensor, like: Tensor) -> bool:
    """Whether `came` is `like` times a positive number."""
    return off(came / came.norm(), like / like.norm()) <= 10 * TOLERANCE


@cache
def plain_peaks(case: Case) -> tuple[int, int]:
    """The most bytes alive with one micro-batch at a time, and with the largest group as one."""
    micro_batches = case.micro_batches()
    big_batch = tuple(map(torch.cat, zip(*max(case.groups(micro_batches), key=len), strict=True)))
    return peak_of(case, micro_batches[:1] * 2), peak_of(case, [big_batch] * 2)


def peak_of(case: Case, micro_batches: Sequence[MicroBatch]) -> int:
    """The most bytes alive while plain forward and backward passes follow each other, their
    gradients adding up."""
    model, live = case.model(), LiveStorages()
    live.follow([*model.parameters(), *(x for pair in micro_batches for x in pair)])
    before = live.now()
    live.begin_peak()
    with live:
        for micro_batch in micro_batches:
            loss_sum, count = model(*micro_batch)
            (loss_sum / count.clamp(min=1)).backward()
            del loss_sum, count
    return live.peak - before


def _losses_off(returned: Any, right: list[float]) -> float:
    try:
        came = [float(x) for x in returned]
    except (TypeError, ValueError, RuntimeError):
        return inf
    if len(came) != len(right):
        return inf
    return worst(abs(a - b) / abs(b) for a, b in zip(came, right, strict=True))
