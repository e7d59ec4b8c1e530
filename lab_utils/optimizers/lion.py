"""Lion: one moment, and of the step only its sign (Chen et al. 2023, "Symbolic Discovery of
Optimization Algorithms", algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


class Lion(torch.optim.Optimizer):
    """Each weight moves by exactly ±lr. The step mixes the gradient with the moment by `betas[0]`,
    the moment is kept with `betas[1]`; the paper's rates are 3 to 10 times smaller than AdamW's.

    State: `moment`, as large as the weights.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99)
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update from the gradients in `.grad`."""
        for group in self.param_groups:
            mix, keep = group["betas"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["moment"] = torch.zeros_like(weight)
                moment = state["moment"]
                direction = moment.lerp(weight.grad, 1 - mix).sign_()
                weight.add_(direction, alpha=-group["lr"])
                moment.lerp_(weight.grad, 1 - keep)
