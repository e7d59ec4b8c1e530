"""Activation functions that the lab on first weights hands to an answer."""

from __future__ import annotations

import torch
from torch import Tensor


def same(x: Tensor) -> Tensor:
    """No activation function."""
    return x


def leaky(x: Tensor) -> Tensor:
    """ReLU that lets 0.3 of what is negative through."""
    return torch.nn.functional.leaky_relu(x, 0.3)


ACTIVATIONS = {"none": same, "relu": torch.relu, "leaky": leaky, "abs": torch.abs}
