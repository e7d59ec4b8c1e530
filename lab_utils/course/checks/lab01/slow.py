"""Parts of a training step, each done slowly in its own way. The learner finds out why, and mends
them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....parallel.comm import Axis


def update(parameters: Sequence[Tensor], gradients: Sequence[Tensor], rate: float) -> None:
    """One step of plain gradient descent, in place."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.add_(gradient, alpha=-rate)


def activate(x: Tensor) -> None:
    """An activation of eight element-wise operations, in place."""
    for _ in range(4):
        x.mul_(0.5).add_(1.0)


def summed(axis: Axis, gradients: Sequence[Tensor]) -> Tensor:
    """The gradient of a step: the sum over its micro-batches, and over the ranks of `axis`."""
    total = torch.zeros_like(gradients[0])
    for gradient in gradients:
        everywhere = gradient.clone()
        axis.all_reduce(everywhere, purpose="gradient").wait()
        total += everywhere
    return total
