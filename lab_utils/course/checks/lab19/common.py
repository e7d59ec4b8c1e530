"""What the exercises of this lab share: a case is a command line and a number of ranks; a run is
judged by every rule at once, so that a fault that is still there hides no other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ....i18n import t
from ..exercise import Exercise
from ..ranks import begin_case, crash, saw
from ..verdict import Failure, Measured
from . import right
from .script import Part, with_part
from .watching import Facts, Forward, Update, run_script

RUN_S = 20.0  # a run takes half a second; ranks that share two cores with others may wait
FLOAT = 4  # bytes
_folders = itertools.count()


@dataclass(frozen=True)
class Case:
    """A run of the script: on so many ranks, with these settings (the script's flags)."""

    ranks: int
    batch: int = 4
    accumulate: int = 1
    micro_batches: int = 4  # of one rank in one epoch
    over: int = 0  # windows of text beyond those
    epochs: int = 2
    seed: int = 0
    dropout: float = 0.0
    clip: float = 1.0
    mixed: bool = False
    overflows: bool = False  # the first step does, on rank 0

    @property
    def windows(self) -> int:
        return self.micro_batches * self.batch * self.ranks + self.over

    @property
    def words(self) -> list[str]:
        """The command line."""
        names = ("batch", "accumulate", "windows", "epochs", "seed", "dropout", "clip")
        words = [f"--{name}={getattr(self, name)}" for name in names]
        if self.mixed:
            words.append("--mixed")
        return words

    def __str__(self) -> str:
        parts = [t(f"{self.ranks} ranks", f"{self.ranks} 个 rank")]
        k, m = self.accumulate, self.micro_batches
        if k > 1:
            parts.append(
                t(
                    f"{m} micro-batches an epoch in groups of {k}",
                    f"每轮 {m} 个微批次，每 {k} 个一组",
                )
            )
        if self.overflows:
            parts.append(t("a first step that overflows", "第一步会上溢"))
        return t(", ", "，").join(parts)


class PartExercise(Exercise):
    """An exercise whose answer is a part of the script: the ranks are given the whole, as text."""

    def examine(self, answers: Sequence[Any], cases: Sequence[Any]) -> list[Failure | Measured]:
        return super().examine([with_part(answer) for answer in answers], cases)


def run_with(
    once: Callable[[Part, Case, Path], Any],
) -> Callable[[Part, Sequence[Case], float], None]:
    """An exercise's `run`, from what it does in one case with a folder that all ranks share."""

    def run(part: Part, cases: Sequence[Case], patience: float) -> None:
        for number, case in enumerate(cases):
            dist.all_reduce(torch.zeros(1, dtype=torch.int8))  # nobody is still in the case before
            begin_case(number, RUN_S)
            folder = Path(get_temp_dir()) / f"case{next(_folders)}"
            folder.mkdir(exist_ok=True)
            saw(number, once(part, case, folder))

    return run


def one_run(part: Part, case: Case, folder: Path) -> Facts:
    """The whole script, once."""
    return run_script(part, case.words, folder, case.overflows and dist.get_rank() == 0)


def ended(seen: Any, case: Case, _: int) -> Failure:
    """Who raised, or waits for whom."""
    return crash(seen, "", None, RUN_S)


def first_of(found: Iterable[Failure]) -> Failure | None:
    """The first of all that a run shows, which says how many more there are."""
    every: dict[str, Failure] = {}
    for one in found:
        every.setdefault(one.criterion, one)
    if not every:
        return None
    first, *others = every.values()
    if others:
        n = len(others)
        more = t(
            f" (This run shows {n} more {'fault' if n == 1 else 'faults'} besides.)",
            f"（这次运行另外还显出 {n} 处故障。）",
        )
        first = first._replace(came=first.came + more)
    return first


def groups(facts: Facts) -> list[tuple[Update, list[Forward]]]:
    """Each update with the training passes since the one before."""
    found, begin = [], 0
    for update in facts.updates:
        found.append((update, facts.forwards[begin : update.forwards]))
        begin = update.forwards
    return [
        (update, [f for f in passes if f.training or f.mask is not None])
        for update, passes in found
    ]


def trained(facts: Facts, case: Case) -> list[Forward]:
    """The passes over windows that are there to be trained on, whatever the model's mode."""
    return [f for f in facts.forwards if max(f.rows, default=0) < case.windows]


def gradient(weights: Tensor, rows: Sequence[int], half: torch.dtype | None = None) -> Tensor:
    """The gradient of the mean loss over these windows, all in one process, without dropout."""
    return _loss(weights, rows, half)[1]


def loss(weights: Tensor, rows: Sequence[int], half: torch.dtype | None = None) -> float:
    """The mean loss over these windows, in one process, without dropout."""
    return _loss(weights, rows, half)[0]


def _loss(weights: Tensor, rows: Sequence[int], half: torch.dtype | None) -> tuple[float, Tensor]:
    model = right.Model(0.0)
    nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    inputs, targets = (part[list(rows)] for part in TEXT.tensors)
    with torch.autocast("cpu", dtype=half or torch.bfloat16, enabled=half is not None):
        found = right.loss_of(model, inputs, targets)
    found.backward()
    return found.item(), torch.cat([p.grad.flatten() for p in model.parameters()])


TEXT = right.windows(0, 2_000)
