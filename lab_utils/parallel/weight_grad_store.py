"""Gradients of weights, put off: what zero-bubble schedules need to fill the pipeline's idle time.

The backward pass of a linear layer has two products: the gradient of its input, which the stage
before is waiting for, and that of its weight, which nobody waits for until the optimizer step (Qi
et al. 2023, "Zero Bubble Pipeline Parallelism").
"""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor, nn

from .ledger import Ledger


class WeightGradStore:
    """Products that are still to be computed, by (micro-batch, stage), first in first out inside
    each."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._waiting: dict[tuple[int, int], deque[tuple[nn.Parameter, Tensor, Tensor]]] = {}
        self._now: deque[tuple[nn.Parameter, Tensor, Tensor]] = deque()

    def open(self, key: tuple[int, int]) -> None:
        """What is put in from now on belongs to `key`."""
        self._now = self._waiting.setdefault(key, deque())

    def put(self, weight: nn.Parameter, gradient: Tensor, x: Tensor) -> None:
        """Put off the gradient of `weight`, the product of its output's `gradient` and its input
        `x`; both are kept until then."""
        for tensor in (gradient, x):
            self.ledger.hold("activations", tensor)
        # x itself would keep the graph that made it, and its inputs
        self._now.append((weight, gradient, x.detach()))

    def compute(self, key: tuple[int, int]) -> None:
        """Compute what `key` has put off, through autograd's own accumulation, so that whoever
        watches gradients sees them."""
        waiting = self._waiting.pop(key, deque())
        while waiting:  # each is let go when it is done
            weight, gradient, x = waiting.popleft()
            torch.autograd.backward(
                weight.view_as(weight), weight_gradient(gradient, x).to(weight.dtype)
            )
            for tensor in (gradient, x):
                self.ledger.release("activations", tensor)


def weight_gradient(gradient: Tensor, x: Tensor) -> Tensor:
    """Of y = x Wᵀ: gradient (…, out) and x (…, in) give (out, in)."""
    return gradient.flatten(0, -2).T @ x.flatten(0, -2)
