"""Real moments made small, and what the next step of Adam becomes: factored as in Adafactor, in
eight bits by blocks, or in eight bits with one scale for a whole tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...engines.optimizer import BETAS
from ...optimizers.adam8bit import codebook, dequantise, quantise
from .states import Moments

# (numbers, whether they may be negative) → what is read back
Keep = Callable[[Tensor, bool], Tensor]


def factored(second: Tensor) -> Tensor:
    """A matrix of squares from the means of its rows and of its columns."""
    return torch.outer(second.mean(1), second.mean(0)) / second.mean()


def in_full(numbers: Tensor, signed: bool) -> Tensor:
    """fp32, as it is."""
    return numbers


def in_blocks(numbers: Tensor, signed: bool) -> Tensor:
    """Eight bits, a scale for every 256 elements."""
    codes, largest = quantise(numbers.flatten(), signed)
    return dequantise(codes, largest, signed).view(numbers.shape)


def with_one_scale(numbers: Tensor, signed: bool) -> Tensor:
    """Eight bits, one scale for the whole tensor."""
    shares, largest = codebook(signed), numbers.abs().max()
    codes = torch.bucketize(numbers / largest, (shares[:-1] + shares[1:]) / 2, right=True)
    return shares[codes] * largest


def next_step(moments: Moments, done: int, keep: Keep = in_full) -> Tensor:
    """Adam's step number `done` + 1 in learning rates, from moments that were kept so."""
    first, second = (r ** (done + 1) for r in BETAS)
    mean = keep(moments.first, True).lerp(moments.gradient, 1 - BETAS[0])
    square = keep(moments.second, False).lerp(moments.gradient.square(), 1 - BETAS[1])
    return mean / (1 - first) / ((square / (1 - second)).sqrt() + 1e-8)
