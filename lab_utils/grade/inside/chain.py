"""The model of labs 05 and 06 in a room: a chain of blocks, with gates where the rank stands still
until the grader lets it on.

A gate in the backward pass multiplies the gradient by a number that only the grader knows, and
tells it to no rank that has not come so far. So whatever holds a gradient from behind a gate was
computed after the gate was passed, and what was sent before was sent before: order is proven
without a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Ask = Callable[[str], float]


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, ask: Ask, name: str) -> Tensor:
        ctx.ask, ctx.name = ask, name
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.ask(ctx.name), None, None


class Block(nn.Module):
    """x + back(scale · tanh(into(x))), times `gain` if there is one; x is (batch, width). `stand`
    is called when every weight is in use."""

    def __init__(self, width: int, inner: int, gain: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.into = nn.Linear(width, inner, bias=False, dtype=dtype)
        self.scale = nn.Parameter(torch.ones(inner, dtype=dtype))
        self.back = nn.Linear(inner, width, bias=False, dtype=dtype)
        self.gain = nn.Parameter(torch.ones((), dtype=dtype)) if gain else None
        self.stand: Callable[[], Any] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        y = self.back(self.into(x).tanh() * self.scale)
        self.stand()
        return x + (y if self.gain is None else self.gain * y)


class Chain(nn.Module):
    """Blocks with `inner[k]` features inside block k; calling it gives the mean squared error.

    twice:   numbers of blocks that are used twice in a row
    out:     numbers of blocks that are left out
    gate:    asked in the backward pass, before block k, for the factor of "k"
    """

    def __init__(self, width: int, inner: Sequence[int], gain: bool, dtype: str) -> None:
        super().__init__()
        kind = getattr(torch, dtype)
        self.blocks = nn.ModuleList(Block(width, n, gain, kind) for n in inner)
        self.twice, self.out = set[int](), set[int]()
        self.gate: Ask | None = None

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for number, block in enumerate(self.blocks):
            if number in self.out:
                continue
            x = block(block(x)) if number in self.twice else block(x)
            if self.gate is not None:
                x = _Gate.apply(x, self.gate, str(number))
        return (x - y).square().mean()

    def fill(self, weights: Sequence[Tensor]) -> None:
        """Take these, in the order of parameters()."""
        with torch.no_grad():
            for parameter, values in zip(self.parameters(), weights, strict=True):
                parameter.copy_(values.view(parameter.shape))


class Momenta(torch.optim.Optimizer):
    """Sixteen running averages of the gradient, and a step along their mean: an optimizer whose
    states are so large that nothing else can be taken for them."""

    COUNT = 16

    def __init__(self, tensors: Sequence[Tensor], lr: float) -> None:
        super().__init__(tensors, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for x in group["params"]:
                if x.grad is None:
                    continue
                state = self.state[x]
                if not state:
                    state.update({f"m{k}": torch.zeros_like(x) for k in range(self.COUNT)})
                for k in range(self.COUNT):
                    average = state[f"m{k}"].mul_(k / self.COUNT).add_(x.grad)
                    x.add_(average, alpha=-group["lr"] / self.COUNT)


OPTIMIZERS: dict[str, Callable[[Sequence[Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda tensors: torch.optim.SGD(tensors, lr=0.2, momentum=0.9),
    "adamw": lambda tensors: torch.optim.AdamW(tensors, lr=0.01, weight_decay=0.1),
    "momenta": lambda tensors: Momenta(tensors, lr=0.02),
}


def make_optimizer(kind: str) -> Callable[[Sequence[Tensor]], torch.optim.Optimizer]:
    """What an answer is given to make its optimizers with: "sgd", "adamw" or "momenta"."""
    return OPTIMIZERS[kind]
