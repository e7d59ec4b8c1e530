"""What a rank may hold at which moment, by the kernel's count of its memory. Sizes are those of a
large model of twelve equal blocks, so that what Python itself takes is little beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...course.checks.verdict import Failure
from ...i18n import t
from ..inside.chain import Momenta
from .judge import Criterion
from .training import Run

STEP = 1  # the second: by then everything has been made that will be
NOISE = 0.2  # of the weights: what Python takes and gives back between two gates
_STATES = Criterion(
    "states",
    "a rank holds 1/N of the optimizer's states, and never more",
    "一个 rank 只持有 1/N 的优化器状态，任何时刻都不超过",
)
_GRADIENTS = Criterion(
    "gradients",
    "whole gradients go as they come; 1/N of them stays",
    "完整的梯度来一个走一个，只留下 1/N",
)
_SHARDS = Criterion(
    "shards",
    "between steps a rank holds 1/N of the weights",
    "两步之间，一个 rank 只持有 1/N 的权重",
)
_FORWARD = Criterion(
    "forward",
    "in the forward pass the whole weights of a block or two at a time",
    "前向传播中，完整的权重每次只有一两层",
)
_BACKWARD = Criterion(
    "backward", "in the backward pass, too, and their gradients", "反向传播中也是如此，梯度也一样"
)
CRITERIA = {1: (_STATES,), 2: (_STATES, _GRADIENTS), 3: (_SHARDS, _FORWARD, _BACKWARD)}


class Look(NamedTuple):
    """At one moment: when, the bytes that a rank held, and how many times the weights it may."""

    when: tuple[str, str]
    held: int
    limit: float


def judge(criterion: str, run: Run) -> Failure | None:
    """The first moment at which some rank holds too much."""
    looks = {
        "states": _states,
        "gradients": _gradients,
        "shards": _shards,
        "forward": _forward,
        "backward": _backward,
    }[criterion]
    by_rank = [list(looks(run, rank)) for rank in range(run.case.ranks)]
    for moment in zip(*by_rank, strict=True):
        worst = max(moment, key=lambda look: look.held)
        if worst.held > (worst.limit + NOISE) * run.case.nbytes:
            return _too_much(run, worst)
    return None


def _states(run: Run, rank: int) -> Iterator[Look]:
    """States are `Momenta.COUNT` times the weights. A buffer of all gradients that stays, and a
    second copy of the shard, are fine; in a step the gradients are there besides."""
    begin, share = run.memory_at(rank, "model").now, Momenta.COUNT / run.case.ranks
    after = run.memory_at(rank, "step over", STEP).now
    yield Look(("after a step", "一步之后"), after - begin, share + 4)
    most = run.most_until(rank, "step over", STEP)
    yield Look(("at the most", "最多时"), most - begin, share + 8)


def _gradients(run: Run, rank: int) -> Iterator[Look]:
    begin, end = (run.memory_at(rank, name, STEP) for name in ("batch", "backward over"))
    share, block = 1 / run.case.ranks, 1 / len(run.case.inner)
    after, during = ("after the backward pass", "反向传播之后"), ("in it", "反向传播中")
    yield Look(after, end.now - begin.now, share + block)
    yield Look(during, end.most - begin.now, share + 5 * block)


def _shards(run: Run, rank: int) -> Iterator[Look]:
    share = 1 / run.case.ranks
    yield Look(("when it is made", "刚创建时"), _beside(run, rank, "made", -1), share)
    between = ("between two steps", "两步之间")  # with the momentum of the shard
    yield Look(between, _beside(run, rank, "batch", STEP), 2 * share)


def _forward(run: Run, rank: int) -> Iterator[Look]:
    share, block = 2 / run.case.ranks, 1 / len(run.case.inner)
    end, after = "forward over", ("after the forward pass", "前向传播之后")
    yield Look(after, _beside(run, rank, end, STEP), share + 1.5 * block)
    most = _beside(run, rank, end, STEP, at_most=True)
    yield Look(("in the forward pass", "前向传播中"), most, share + 4 * block)


def _backward(run: Run, rank: int) -> Iterator[Look]:
    share, block = 3 / run.case.ranks, 1 / len(run.case.inner)
    end, after = "backward over", ("after the backward pass", "反向传播之后")
    yield Look(after, _beside(run, rank, end, STEP), share + 1.5 * block)
    most = _beside(run, rank, end, STEP, at_most=True)
    yield Look(("in the backward pass", "反向传播中"), most, share + 7 * block)


def _beside(run: Run, rank: int, gate: str, step: int, at_most: bool = False) -> int:
    """Bytes at a gate beyond those of a process without a model."""
    begin, there = run.memory_at(rank, "model").now, run.memory_at(rank, gate, step)
    return (there.most if at_most else there.now) - begin + run.case.nbytes


def _too_much(run: Run, look: Look) -> Failure:
    nbytes = run.case.nbytes
    return Failure(
        "memory",
        t(
            f"{look.when[0]}, what a rank holds for it is at most {look.limit:.2f} times the"
            f" {nbytes:,} bytes of the whole model's weights.",
            f"{look.when[1]}，一个 rank 为此占用的内存不超过整个模型权重（{nbytes:,} 字节）的"
            f" {look.limit:.2f} 倍。",
        ),
        t(f"{look.held / nbytes:.2f} times.", f"实际是 {look.held / nbytes:.2f} 倍。"),
    )
