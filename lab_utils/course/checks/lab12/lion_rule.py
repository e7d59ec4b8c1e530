"""What exercise 2 trains, and Lion in float64: as it should be, and as it usually goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t

STEPS = 4
# a mistake in the formula, by name, and its criterion
MISTAKES = {
    "swapped": "lion.betas",
    "after": "lion.late",
    "l2": "lion.decay",
    "no-rate": "lion.decay",
    "no-decay": "lion.decay",
    "decay-last": "lion.decay",
}


@dataclass(frozen=True)
class Case:
    """Weights of these shapes. `zeros`: rows of the first of them never have a gradient. `late`:
    the last has none in the second step."""

    shapes: tuple[tuple[int, ...], ...] = ((64, 48), (32,), (48, 40))
    zeros: int = 0
    late: bool = False
    lr: float = 0.05
    weight_decay: float = 0.4
    betas: tuple[float, float] = (0.7, 0.9)
    seed: int = 0

    def __str__(self) -> str:
        count = t(f"{self.numel:,} weights", f"{self.numel:,} 个权重")
        rows = t(f", {self.zeros} rows without gradient", f"、{self.zeros} 行没有梯度")
        late = t(", one gradient missing in step 2", "、第 2 步缺一个梯度")
        return count + rows * (self.zeros > 0) + late * self.late

    @property
    def numel(self) -> int:
        """All weights."""
        return sum(torch.Size(shape).numel() for shape in self.shapes)

    @property
    def copy(self) -> int:
        """Bytes of one copy of the weights, in float64."""
        return 8 * self.numel

    @property
    def largest(self) -> int:
        """Bytes of the largest tensor."""
        return 8 * max(torch.Size(shape).numel() for shape in self.shapes)

    def first(self) -> list[Tensor]:
        """The weights before the first step."""
        random = torch.Generator().manual_seed(self.seed)
        return [torch.randn(s, generator=random, dtype=torch.float64) for s in self.shapes]

    def gradients(self, step: int) -> list[Tensor | None]:
        """New gradients of a step."""
        random = torch.Generator().manual_seed(1000 * self.seed + step + 1)
        found: list[Tensor | None] = [
            torch.randn(s, generator=random, dtype=torch.float64) for s in self.shapes
        ]
        if self.zeros:
            found[0][: self.zeros] = 0
        if self.late and step == 1:
            found[-1] = None
        return found


@lru_cache(maxsize=64)
def weights(case: Case, mistake: str) -> tuple[list[Tensor], ...]:
    """All weights before the first step and after each."""
    found, moments = [case.first()], [0.0 * w for w in case.first()]
    mix, keep = reversed(case.betas) if mistake == "swapped" else case.betas
    lr, wd = case.lr, 0.0 if mistake == "no-decay" else case.weight_decay
    for step in range(STEPS):
        now = list(found[-1])
        for i, gradient in enumerate(case.gradients(step)):
            if gradient is None:
                continue
            w, m = now[i], moments[i]
            if mistake == "l2":
                gradient = gradient + wd * w
            moments[i] = keep * m + (1 - keep) * gradient
            mixed = moments[i] if mistake == "after" else mix * m + (1 - mix) * gradient
            sign = mixed.sign()
            shrink = 1 - (wd if mistake == "no-rate" else lr * wd) * (mistake != "l2")
            last = mistake == "decay-last"
            now[i] = (w - lr * sign) * shrink if last else w * shrink - lr * sign
        found.append(now)
    return tuple(found)


def draw(random: Random) -> list[Case]:
    """A plain case first, then rows without gradients, then a gradient that is missing."""

    def drawn(**special: Any) -> Case:
        shapes = [(random.randint(40, 70), random.randint(30, 60)) for _ in range(2)]
        return Case(
            shapes=(shapes[0], (random.randint(10, 40),), shapes[1]),
            lr=random.uniform(0.02, 0.1),
            weight_decay=random.uniform(0.2, 0.6),
            betas=(random.uniform(0.5, 0.75), random.uniform(0.85, 0.95)),
            seed=random.randint(1, 10**5),
            **special,
        )

    return [drawn(), drawn(zeros=random.randint(2, 20)), drawn(late=True)]
