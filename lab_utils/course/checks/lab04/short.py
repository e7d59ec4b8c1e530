"""A model whose gradients travel in a format that is as short as fp16, and else exact: what falls
below or beyond its range is lost, nothing is rounded. So right answers agree to the last digits.
The range lies so high that without a loss scale everything is lost, and with the check's nothing
is, in whatever order an answer divides."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ....formats import FORMATS
from ....model import IGNORED

_UP = 2.0**25
LARGEST, SMALLEST = _UP * FORMATS["fp16"].largest, _UP * FORMATS["fp16"].smallest
WIDTH, WORDS = 4, 5


class Short(torch.autograd.Function):
    """The identity, whose gradient has a range as wide as fp16's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        kept = torch.where(gradient.abs() < SMALLEST, torch.zeros_like(gradient), gradient)
        return torch.where(gradient.abs() > LARGEST, gradient.sign() * torch.inf, kept)


class ShortModel(nn.Module):
    """Two layers in float64, alike on all ranks. `(x, targets)` → (loss sum, count of the targets
    that count)."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first, self.second = (
            nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64))
            for shape in ((WIDTH, WIDTH), (WIDTH, WORDS))
        )

    def forward(self, x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = Short.apply(torch.tanh(Short.apply(x @ self.first)) @ self.second)
        loss = nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
        return loss, (targets != IGNORED).sum()
