"""Any nn.Module, not our GPT alone: several ranks train it as one process does."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from models import MODELS, ROWS, batches, loss_of, made
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.parallel.data_parallel import data_parallel
from lab_utils.parallel.mesh import Mesh

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


def share(x: Tensor, rank: int, ranks: int) -> Tensor:
    return x[rank * ROWS // ranks : (rank + 1) * ROWS // ranks]


def replicas(ranks: int, gradient_sync: str, micro_batches: int) -> dict[str, dict[str, Tensor]]:
    """On a rank: each model trained, from weights of this rank's own before the broadcast."""
    axis = Mesh(ParallelConfig(dp=ranks))["dp"]
    trained = {}
    for name in MODELS:
        model = made(name, seed=axis.rank)
        sync = data_parallel(
            model, axis, gradient_sync=gradient_sync, bucket_bytes=600, average=True
        )
        optimizer = optimizer_of(model)
        for x, y in batches(model, STEPS):
            x, y = share(x, axis.rank, ranks), share(y, axis.rank, ranks)
            sync.zero_grad()
            *early, last = zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True)
            with sync.no_sync():
                for micro in early:
                    (loss_of(model, *micro) / micro_batches).backward()
            (loss_of(model, *last) / micro_batches).backward()
            sync.finish()
            optimizer.step()
        trained[name] = weights(model)
    return trained


@pytest.mark.parametrize(
    ("ranks", "gradient_sync", "micro_batches"),
    [(2, "bucketed", 2), (2, "naive", 1), (4, "bucketed", 1)],
)
def test_replicas_of_any_model_train_as_one_process(ranks, gradient_sync, micro_batches):
    for trained in launch(replicas, ranks, ranks, gradient_sync, micro_batches, threads=1):
        assert {name: off(trained[name], alone(name)) for name in MODELS} == {
            name: pytest.approx(0.0, abs=2e-6) for name in MODELS
        }


def frozen_all(ranks: int) -> bool:
    """On a rank: whether a model of which nothing is trained has rank 0's weights."""
    axis = Mesh(ParallelConfig(dp=ranks))["dp"]
    model = nn.Linear(4, 4).requires_grad_(False)
    nn.init.constant_(model.weight, float(axis.rank))
    data_parallel(model, axis).finish()
    return bool((model.weight == 0).all())


def test_a_model_without_gradients_is_only_made_equal():
    assert all(launch(frozen_all, 2, 2, threads=1))
