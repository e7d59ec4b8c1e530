"""Muon: momentum whose singular values are all brought near one (Jordan 2024, "Muon: An optimizer
for hidden layers in neural networks")."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan's: steep at zero, then between about 0.7 and 1.2
STEPS = 5


def orthogonalise(matrix: Tensor, steps: int = STEPS, dtype: torch.dtype | None = None) -> Tensor:
    """U Vᵀ of matrix = U S Vᵀ, nearly, by Newton–Schulz: x ← a·x + (b·xxᵀ + c·(xxᵀ)²)·x, in
    products alone.

    `matrix` (m, n); computed in `dtype` (None: its own; bf16 is usual on GPUs), returned in the
    matrix's. 2·steps·(2·k²·l + k³) FLOPs with k the smaller side and l the larger.
    """
    a, b, c = QUINTIC
    x = matrix.to(dtype or matrix.dtype)
    x = x.T if matrix.shape[0] > matrix.shape[1] else x  # the smaller Gram matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if matrix.shape[0] > matrix.shape[1] else x).to(matrix.dtype)


def step_size(shape: tuple[int, ...]) -> float:
    """The factor that makes a step about as large as AdamW's, whose learning rate then serves:
    0.2·√(larger side) (Liu et al. 2025, "Muon is Scalable for LLM Training", section 2.2)."""
    return 0.2 * max(shape) ** 0.5


def direction_of(matrix: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """What is subtracted from the weights, times the learning rate."""
    return orthogonalise(matrix, dtype=dtype).mul_(step_size(tuple(matrix.shape)))


def each_by_itself(matrices: list[Tensor]) -> list[Tensor]:
    """The directions of matrices that are here whole."""
    return [direction_of(matrix) for matrix in matrices]


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, then `directions`: a function from this rank's part of every matrix's
    momentum to the same part of its step. By default the matrices are whole; an engine that holds
    them in pieces brings the pieces together (engines/whole_matrices.py).

    State: `moment`, as large as the weights. The gradients' memory is used up.
    """

    def __init__(
        self,
        params: Iterable[Tensor],
        lr: float = 3e-3,
        momentum: float = 0.95,
        directions: Callable[[list[Tensor]], list[Tensor]] = each_by_itself,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.directions = directions

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update from the gradients in `.grad`."""
        for group in self.param_groups:
            looking_ahead = []
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["moment"] = torch.zeros_like(weight)
                moment = state["moment"].lerp_(weight.grad, 1 - group["momentum"])
                looking_ahead.append(weight.grad.lerp_(moment, group["momentum"]))
            for weight, direction in zip(
                group["params"], self.directions(looking_ahead), strict=True
            ):
                weight.add_(direction.view_as(weight), alpha=-group["lr"])
