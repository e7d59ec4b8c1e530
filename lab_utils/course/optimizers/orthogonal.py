"""Newton–Schulz looked at from outside: singular values before and after, the two-stage variant,
and what becomes of a matrix that every rank orthogonalises in its own part."""

from __future__ import annotations

import torch
from torch import Tensor

from ...optimizers.muon import QUINTIC, STEPS, orthogonalise

# DeepSeek-AI 2026, "DeepSeek-V4", section 2.4: eight of Jordan's steps, then two that end at one
FIRST, LAST, ENDING = 8, 2, (2.0, -1.5, 0.5)


def two_stages(matrix: Tensor) -> Tensor:
    """DeepSeek-V4's ten steps."""
    x = orthogonalise(matrix, steps=FIRST)
    one, three, five = ENDING
    for _ in range(LAST):
        gram = x @ x.T
        x = one * x + (three * gram + five * gram @ gram) @ x
    return x


def on_a_singular_value(start: Tensor, two_stage: bool = False) -> Tensor:
    """What the steps make of a singular value: all of Newton–Schulz happens to each by itself."""
    x = start
    for one, three, five in [QUINTIC] * (FIRST if two_stage else STEPS) + [ENDING] * (
        LAST if two_stage else 0
    ):
        x = one * x + three * x**3 + five * x**5
    return x


def singular_values(matrix: Tensor) -> Tensor:
    """In fp64, the largest first."""
    return torch.linalg.svdvals(matrix.double())


def in_parts(matrix: Tensor, ranks: int) -> Tensor:
    """The mistake: every rank orthogonalises its own rows."""
    return torch.cat([orthogonalise(part) for part in matrix.chunk(ranks)])


def cosine(a: Tensor, b: Tensor) -> float:
    """Of the angle between two matrices, taken as long vectors."""
    return torch.cosine_similarity(a.flatten(), b.flatten(), dim=0).item()
