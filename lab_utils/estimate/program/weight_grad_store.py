"""Gradients of weights put off by a zero-bubble schedule."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .live import Value
from .tape import Leaf

if TYPE_CHECKING:
    from .tensor import ParallelProgram


class WeightGradStore:
    """Gradients of weights put off (zero-bubble), as parallel.weight_grad_store keeps them: by
    (micro-batch, stage)."""

    def __init__(self, program: ParallelProgram) -> None:
        self.program = program
        self._waiting: dict[tuple[int, int], deque[tuple[Leaf, Value, Value]]] = {}
        self._now: deque[tuple[Leaf, Value, Value]] = deque()
        self.next_is: Callable[[str], None] | None = None  # told the weight whose turn it is

    def open(self, key: tuple[int, int]) -> None:
        """What is put in from now on belongs to `key`."""
        self._now = self._waiting.setdefault(key, deque())

    def put(self, weight: Leaf, gradient: Value, x: Value) -> None:
        """Put off the gradient of `weight`, the product of the two; both are kept until then."""
        for value in (gradient, x):
            self.program.torch.hold(value.storage)
        self._now.append((weight, gradient.detach(), x.detach()))

    def compute(self, key: tuple[int, int]) -> None:
        """Compute what `key` still waits for."""
        torch = self.program.torch
        torch.phase = "backward"
        waiting = self._waiting.pop(key, deque())
        while waiting:
            weight, gradient, x = waiting.popleft()
            if self.next_is is not None:
                self.next_is(weight.name)
            torch.scope = weight.name.removesuffix(".weight")
            made = self.program.weight_gradient(gradient, x, weight)
            weight.put(torch, torch.cast(made, weight.value.width))
            del made
            for value in (gradient, x):
                torch.release(value.storage)
        torch.phase = "forward"
