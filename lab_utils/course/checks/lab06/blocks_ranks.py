"""Exercise 3 on the ranks: a chain of blocks, a learner's gathering and freeing, and what was alive
in each phase.

A case is told in phases: made (0), then the forward and the backward pass of each step, then one
more forward pass, which shows what the last update came to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ....measure.memory import storage_bytes
from ..transfers import Transfers
from ..watch import Watch
from .axis import ShardingAxis
from .seen import Sent, Weights, see_sent, see_weights
from .steps import Plain
from .training import STEPS, Block, Case, Model, Right, flat, train_alone

PHASES = 2 + 2 * STEPS


@dataclass
class Made:
    """What is held when the blocks have been cut, in bytes of live storages."""

    held: int
    shard_elements: int
    shard_storages: int


@dataclass
class Forward:
    """A forward pass. Bytes are live storages beyond those from before the step; `plain`: of a
    model that is not cut."""

    step: int
    # weights that a block used in the first step, and that are not those from the start
    wrong: int
    weights: Weights | None  # the weights used in a later step
    kept: int
    plain_kept: int
    most: int
    plain_most: int
    resident: int  # bytes behind the blocks' own parameters
    sent: Sent


@dataclass
class Backward:
    """A backward pass; bytes as in Forward. `plain_most`: its gradients thrown away at once."""

    kept: int
    most: int
    plain_most: int
    resident: int
    whole_gradients: int  # parameters of the blocks that have a .grad
    shard_elements: int  # of the shards' gradients
    shard_storages: int
    sent: Sent  # in the whole step


def train(answer: Any, case: Case, axis: ShardingAxis) -> Iterator[Made | Forward | Backward]:
    """Three steps with an answer's blocks, and what this rank saw in each phase."""
    right, plain, model, live = train_alone(case), Plain.of(case), case.model(), Watch()
    model.be_seen_by(live.must_see)
    axis.begin_step(live)
    live.follow(model.parameters())
    with live:
        zero = answer(list(model.blocks), axis)
    shards = list(zero.shards)
    optimizer = case.make_optimizer(shards)
    yield Made(live.now(), *_bytes(shards))
    for step in range(STEPS + 1):
        axis.begin_step(live)
        x, y = case.batch(step, axis.rank)
        live.follow([x, y])
        before, live.phase = live.now(), "forward"
        live.begin_peak()
        with Transfers() as transfers:
            loss, used = _forward(model, x, y, live)
        kept, (wrong, weights) = live.now() - before, _compare(used, right, step, case)
        yield Forward(
            step,
            wrong,
            weights,
            kept,
            plain.kept,
            live.peak - before,
            plain.forward,
            _resident(model),
            see_sent(axis, transfers),
        )
        if step == STEPS:
            return
        live.phase = "backward"
        live.begin_peak()
        with transfers, live:
            loss.backward()
        del loss
        gradients = [shard.grad for shard in shards if shard.grad is not None]
        yield Backward(
            live.now() - before,
            live.peak - before,
            plain.backward,
            _resident(model),
            sum(w.grad is not None for w in model.weights()),
            *_bytes(gradients),
            see_sent(axis, transfers),
        )
        del gradients
        with live:
            optimizer.step()
        optimizer.zero_grad()


def _forward(model: Model, x: Tensor, y: Tensor, live: Watch) -> tuple[Tensor, Tensor]:
    """The loss, and all weights, flat, as they were when the blocks used them."""
    used = dict[Block, Tensor]()

    def watch(block: Block) -> None:
        with live.ignoring():
            used[block] = flat(block.weights())

    for block in model.blocks:
        block.watch = watch
    with live:
        loss = model(x, y)
    for block in model.blocks:
        block.watch = None
    with live, live.ignoring():
        return loss, flat([used[block] for block in model.blocks])


def _compare(used: Tensor, right: Right, step: int, case: Case) -> tuple[int, Weights | None]:
    if step == 0:
        return int((used != right.weights[0]).sum()), None
    return 0, see_weights(used, right, step - 1, case)


def _resident(model: Model) -> int:
    return storage_bytes(model.weights())


def _bytes(tensors: Sequence[Tensor]) -> tuple[int, int]:
    """Of their elements, and of the storages that they keep."""
    return sum(x.numel() * x.element_size() for x in tensors), storage_bytes(tensors)
