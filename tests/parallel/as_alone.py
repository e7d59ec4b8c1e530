"""What a model becomes when one process trains it, and how far from that another result is."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from models import ROWS, batches, loss_of, made
from torch import Tensor, nn

STEPS = 3


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach().clone() for name, x in model.state_dict().items()}


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@cache
def alone(name: str) -> dict[str, Tensor]:
    """The weights after training in this process, on whole batches."""
    model = made(name, seed=0)
    optimizer = optimizer_of(model)
    for x, y in batches(model, STEPS):
        optimizer.zero_grad()
        loss_of(model, x, y).backward()
        optimizer.step()
    return weights(model)


def off(came: dict[str, Tensor], right: dict[str, Tensor]) -> float:
    """The largest error of any tensor, as a share of its norm."""
    return max(
        ((came[name] - x).double().norm() / x.double().norm().clamp(min=1e-12)).item()
        for name, x in right.items()
    )


def assert_as_alone(trained: dict[str, dict[str, Tensor]], names: list[str]) -> None:
    came = {name: off(trained[name], alone(name)) for name in names}
    assert came == {name: pytest.approx(0.0, abs=2e-6) for name in names}


def share(x: Tensor, rank: int, ranks: int) -> Tensor:
    return x[rank * ROWS // ranks : (rank + 1) * ROWS // ranks]
