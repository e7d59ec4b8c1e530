"""What exercise 3 updates, and Muon on one process in float64, by singular values in the place of
products."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

import torch
from torch import Tensor

from ....i18n import t

QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's
FIVE = (QUINTIC,) * 5
SETTLED = (QUINTIC,) * 3 + ((2.0, -1.5, 0.5),) * 2  # the last: a fixed point at 1, slope 0
MISTAKES = ("plain", "rows")
Coefficients = tuple[tuple[float, float, float], ...]
STEPS = 3


@dataclass(frozen=True)
class Case:
    """Parameters of these shapes on `ranks` ranks; those of one dim are not Muon's. `still`: the
    matrix whose gradient is zero in every step. `criterion`: what the case is there to show."""

    ranks: int
    shapes: tuple[tuple[int, ...], ...]
    criterion: str | None = None
    still: int | None = None
    coefficients: Coefficients = FIVE
    lr: float = 0.1
    momentum: float = 0.8
    seed: int = 0

    def __str__(self) -> str:
        sizes = Counter("×".join(map(str, shape)) for shape in self.shapes)
        words = t(", ", "、").join(f"{n} · {s}" if n > 1 else s for s, n in sizes.items())
        return t(f"N = {self.ranks}, shapes {words}", f"N = {self.ranks}、形状 {words}")

    @property
    def matrices(self) -> list[int]:
        """Which of the parameters are Muon's."""
        return [i for i, shape in enumerate(self.shapes) if len(shape) == 2]

    @property
    def bytes(self) -> int:
        """Of all matrices, in float64."""
        return sum(8 * a * b for a, b in (self.shapes[i] for i in self.matrices))

    def first(self) -> list[Tensor]:
        """The weights before the first step, alike on all ranks."""
        random = torch.Generator().manual_seed(self.seed)
        return [torch.randn(s, generator=random, dtype=torch.float64) for s in self.shapes]

    def gradients(self, step: int) -> list[Tensor]:
        """The gradients of a step, averaged already and so alike on all ranks."""
        random = torch.Generator().manual_seed(1000 * self.seed + step + 1)
        found = [torch.randn(s, generator=random, dtype=torch.float64) for s in self.shapes]
        if self.still is not None:
            found[self.still].zero_()
        return found

    def work(self, shape: tuple[int, ...]) -> int:
        """FLOPs of orthogonalising a matrix."""
        k, large = sorted(shape)
        return len(self.coefficients) * (4 * k * k * large + 2 * k**3)


def orthogonalised(matrix: Tensor, coefficients: Coefficients) -> Tensor:
    """By singular values, not by products: U p(p(… S …)) Vᵀ with each p(s) = a·s + b·s³ + c·s⁵."""
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.norm().clamp(min=1e-300)
    for a, b, c in coefficients:
        s = a * s + b * s**3 + c * s**5
    return u @ torch.diag(s) @ vt


@lru_cache(maxsize=64)
def weights(case: Case, mistake: str) -> tuple[list[Tensor], ...]:
    """All parameters before the first step and after each, by one process. `mistake`: "plain"
    momentum that does not look ahead; or "rows", each of N pieces orthogonalised by itself."""
    found, moments = [case.first()], [0.0 * w for w in case.first()]
    for step in range(STEPS):
        now = list(found[-1])
        for i in case.matrices:
            gradient, (rows, columns) = case.gradients(step)[i], case.shapes[i]
            moments[i] = case.momentum * moments[i] + gradient
            ahead = gradient + case.momentum * moments[i]
            whole = moments[i] if mistake == "plain" else ahead
            pieces = whole.chunk(case.ranks) if mistake == "rows" else [whole]
            x = torch.cat([orthogonalised(piece, case.coefficients) for piece in pieces])
            now[i] = now[i] - case.lr * max(1.0, rows / columns) ** 0.5 * x
        found.append(now)
    return tuple(found)


MIXED = ((24, 10), (8, 20), (16,), (14, 14), (9, 26), (12, 18), (5, 30), (22, 11))
# the same number of elements is not the same work
THICK_AND_THIN = ((30, 30), (4, 400), (4, 401), (31, 31), (29, 29))


def draw(random: Random) -> list[Case]:
    """Per number of ranks, equal shapes first; then shapes that differ, a count that the ranks do
    not divide, a matrix without gradients, work that elements do not tell."""

    def drawn(ranks: int, shapes: Sequence[Any], criterion: Any = None, **more: Any) -> Case:
        steps = random.choice((FIVE, SETTLED))
        return Case(
            ranks,
            tuple(shapes),
            criterion,
            coefficients=steps,
            lr=random.uniform(0.05, 0.2),
            momentum=random.uniform(0.6, 0.9),
            seed=random.randint(1, 10**5),
            **more,
        )

    a, b = random.randint(6, 9), random.randint(10, 15)
    mixed = random.sample(MIXED, len(MIXED))
    thick = random.sample(THICK_AND_THIN, len(THICK_AND_THIN))
    return [
        drawn(4, [(a, b), (b,)] + [(a, b)] * 7),
        drawn(4, mixed, "muon.shapes"),
        drawn(4, [(a, b)] * random.randint(2, 3), "muon.uneven"),
        drawn(4, [(a, b), (b + 5, a - 3), (b + 2, b + 2)], "muon.zero", still=1),
        drawn(3, [(a, b)] * random.choice((7, 8)), "muon.uneven"),
        drawn(3, mixed, "muon.shapes"),
        drawn(3, thick),
    ]
