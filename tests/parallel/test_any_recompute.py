"""Recomputation under ZeRO-3 and tensor parallelism: the second run needs the weights again, but
not one more message for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from as_alone import STEPS, assert_as_alone, optimizer_of, share, weights
from models import batches, loss_of, made
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint as checkpoint_of_torch

from lab_utils import ParallelConfig, launch
from lab_utils.parallel import tensor_plans
from lab_utils.parallel.flat_unit import ShardedState
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.recompute import checkpoint, torch_checkpoint
from lab_utils.parallel.shard import shard
from lab_utils.parallel.tensor_parallel import tensor_parallel

BY = {
    "ours": checkpoint,
    "torch": partial(checkpoint_of_torch, use_reentrant=False),
    "observed": torch_checkpoint,
}


def inside(model: nn.Module, by: Callable) -> None:
    """A part of each unit is recomputed."""
    for layer in model.encoder.layers:
        layer._ff_block = partial(by, layer._ff_block)


def around(model: nn.Module, by: Callable) -> None:
    """Each unit is, with the hooks that stand around it."""

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = by(layer, x)
        return x

    layers = model.encoder.layers
    model.encoder.forward = forward


def across(model: nn.Module, by: Callable) -> None:
    """Two units are, as one piece."""
    first, second = model.encoder.layers
    model.encoder.forward = lambda x: by(lambda x: second(first(x)), x)


def cut(ranks: int) -> list[tuple[str, dict[str, Tensor], dict[str, int], int, int]]:
    """On a rank, for each way: the trained weights, payloads of the last step, the model's bytes,
    and how many units were left whole after the backward pass."""
    mesh, found = Mesh(ParallelConfig(dp=ranks)), []
    axis = mesh["dp"]
    for where in (inside, around, across):
        for name, by in BY.items():
            model = made("encoder", axis.rank)
            zero = shard(model, axis, 3, average=True)
            where(model, by)
            optimizer = torch.optim.SGD(zero.shards, lr=0.1, momentum=0.9)
            for x, y in batches(model, STEPS):
                mesh.ledger.clear()
                zero.zero_grad()
                loss_of(model, share(x, axis.rank, ranks), share(y, axis.rank, ranks)).backward()
                left = sum(unit.state is not ShardedState.SHARDED for unit in zero.all_units)
                zero.finish()
                optimizer.step()
            sent = {"parameter": 0, "gradient": 0}
            for call in mesh.ledger.calls:
                sent[call.purpose] += call.bytes
            padded = sum(4 * unit.unit.numel for unit in zero.all_units)
            with zero.whole():
                found.append((f"{where.__name__} {name}", weights(model), sent, padded, left))
    return found


def test_a_unit_whose_forward_pass_runs_twice_is_gathered_as_often_as_without():
    for found in launch(cut, 2, 2, threads=1):
        assert len(found) == 9
        for way, trained, sent, padded, left in found:
            assert_as_alone({"encoder": trained}, ["encoder"])
            assert (sent, left) == ({"parameter": 2 * padded, "gradient": padded}, 0), way


def shared_out(ranks: int) -> list[dict[str, Tensor]]:
    """On a rank: the weights after training with heads and features shared out, each way."""
    axis, found = Mesh(ParallelConfig(tp=ranks))["tp"], []
    for where in (inside, around):
        for by in BY.values():
            model = made("encoder", axis.rank)
            shared = tensor_parallel(model, axis, tensor_plans.ENCODER)
            where(model, by)
            optimizer = optimizer_of(model)
            for x, y in batches(model, STEPS):
                optimizer.zero_grad()
                loss_of(model, x, y).backward()
                optimizer.step()
            found.append(shared.whole())
    return found


def test_layers_that_are_shared_out_may_be_recomputed():
    for found in launch(shared_out, 2, 2, threads=1):
        for trained in found:
            assert_as_alone({"encoder": trained}, ["encoder"])
