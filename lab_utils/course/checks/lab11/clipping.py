"""Exercise 2: clipping by the norm of all gradients together, judged by direction and length."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isclose, isfinite
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure


class Case(NamedTuple):
    """Gradients of total length `norm`, to be clipped at `limit`; the first tensor is `uneven`
    times as long as the others."""

    norm: float
    limit: float
    uneven: float = 20.0
    seed: int = 0

    def __str__(self) -> str:
        return t(
            f"norm {self.norm:g}, threshold {self.limit:g}",
            f"范数 {self.norm:g}，阈值 {self.limit:g}",
        )

    def gradients(self) -> list[Tensor]:
        """Three tensors, float64."""
        random = torch.Generator().manual_seed(self.seed)
        shapes = ((4, 8), (16,), (3, 3, 3))
        parts = [torch.randn(*s, generator=random, dtype=torch.float64) for s in shapes]
        parts[0] *= self.uneven
        length = torch.cat([part.flatten() for part in parts]).norm()
        return [part * (self.norm / length) for part in parts]


class Facts(NamedTuple):
    """What the answer returned (NaN if no number), the length that is left in the tensors that it
    was given, and the cosine with what it was."""

    returned: float
    length: float
    cosine: float


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """Direction, length, then what is returned."""
    found, want = facts[0], min(case.norm, case.limit)
    if not found.cosine > 1 - 1e-9:
        words = t("the same direction as before: cosine 1.", "方向不变：余弦为 1。")
        short = 1 - found.cosine  # of 1, where four digits would show none
        came = f"1 − {short:.0e}" if short < 1e-4 else f"{found.cosine:.4f}"
        return Failure("clip.direction", words, came)
    if not isclose(found.length, want, rel_tol=1e-5):
        words = t(f"gradients of length {want:.4g}.", f"梯度的长度为 {want:.4g}。")
        kind = "clip.calm" if case.norm <= case.limit else "clip.length"
        return Failure(kind, words, f"{found.length:.4g}")
    if not isclose(found.returned, case.norm, rel_tol=1e-6):
        words = t(
            f"it returns the norm before clipping, {case.norm:.4g}.",
            f"返回裁剪之前的范数 {case.norm:.4g}。",
        )
        return Failure("clip.returned", words, f"{found.returned:.4g}")
    return None


def ask(answer: Callable[..., Any], case: Case) -> Facts:
    """Have a case's gradients clipped."""
    given = case.gradients()
    returned = answer(list(given), case.limit)
    before, after = (torch.cat([g.flatten() for g in gs]) for gs in (case.gradients(), given))
    cosine = torch.cosine_similarity(before, after, dim=0).item()
    return Facts(as_number(returned), after.norm().item(), cosine)


def as_number(value: Any) -> float:
    """What an answer returned, as a number; −inf where it is none, or not finite."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    counts = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if counts and isfinite(value) else -inf


def draw(random: Random) -> list[Case]:
    """Norms above and below thresholds."""
    return [
        Case(
            norm=random.choice((0.01, 0.3, 7.0, 250.0)) * random.uniform(0.5, 2),
            limit=random.choice((0.1, 1.0, 10.0)),
            uneven=random.uniform(5, 50),
            seed=random.randint(1, 10**6),
        )
        for _ in range(8)
    ]


EXERCISE = Exercise(
    check="clip_gradients",
    answer="clip_gradients",
    lab="lab11",
    ask=ask,
    judge=judge,
    columns=(
        Column("norm before", "之前的范数", lambda case, _: f"{case.norm:g}"),
        Column("threshold", "阈值", lambda case, _: f"{case.limit:g}"),
        Column("norm after", "之后的范数", lambda _, told: f"{told[0][0].length:.3g}"),
        Column("cosine", "余弦", lambda _, told: f"{told[0][0].cosine:.4f}"),
    ),
    visible=(Case(30.0, 10.0), Case(30.0, 1.0), Case(30.0, 0.1), Case(0.5, 1.0, seed=1)),
    draw=draw,
)
