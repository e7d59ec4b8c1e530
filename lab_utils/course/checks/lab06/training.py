"""What the three exercises train, and how one plain process would have trained it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from ....i18n import t

# at N = 2 a wrong neighbour is the only one there is, and most sizes need no padding
RANKS = (3, 4)
STEPS = 3  # one step hides what a wrong shard does to the next
CONTROL_BYTES = 64  # a step may also send a number or two: a norm, a flag


@dataclass(frozen=True)
class Case:
    """A chain of blocks trained for three steps on `ranks` equal shares of a batch.

    `width` features between blocks, `inner[k]` inside block k. `gain`: each block also has a
    parameter of one element.
    `overflow_at`: the step in which one element of one rank's gradient is infinite. `criterion`:
    the one thing that this case is there to show; None: a plain one.
    """

    ranks: int
    width: int
    inner: tuple[int, ...]
    criterion: str | None = None
    optimizer: str = "sgd"
    gain: bool = False
    max_norm: float = inf
    overflow_at: int | None = None
    dtype: str = "float32"
    seed: int = 0

    def __str__(self) -> str:
        name = {"sgd": t("SGD with momentum", "带动量的 SGD"), "adamw": "AdamW"}[self.optimizer]
        clip = (
            t(f", clipped to {self.max_norm:g}", f"、裁剪到 {self.max_norm:g}")
            if isfinite(self.max_norm)
            else ""
        )
        over = "" if self.overflow_at is None else t(", one gradient infinite", "、有一个梯度溢出")
        return t(
            f"N = {self.ranks}, {self.numel:,} parameters, {name}{clip}{over}",
            f"N = {self.ranks}、{self.numel:,} 个参数、{name}{clip}{over}",
        )

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return getattr(torch, self.dtype).itemsize

    @property
    def shapes(self) -> list[list[int]]:
        """The elements of each parameter, block by block."""
        return [
            [h, *([1] if self.gain else []), h * self.width, self.width * h] for h in self.inner
        ]

    @property
    def numel(self) -> int:
        """Parameters of the model."""
        return sum(map(sum, self.shapes))

    @property
    def largest_block(self) -> int:
        """Bytes of the largest block, padded."""
        return self.padded(max(map(sum, self.shapes))) * self.itemsize

    @property
    def shard_bytes(self) -> int:
        """The most bytes that 1/N of the model takes, every parameter padded by itself."""
        return (
            sum(self.padded(numel) for block in self.shapes for numel in block)
            // self.ranks
            * self.itemsize
        )

    def padded(self, numel: int) -> int:
        """`numel` raised to the next multiple of N."""
        return -(-numel // self.ranks) * self.ranks

    def model(self) -> Model:
        """The model with its first weights, the same on every rank."""
        torch.manual_seed(self.seed)
        return Model(self).to(getattr(torch, self.dtype))

    def batch(self, step: int, rank: int) -> tuple[Tensor, Tensor]:
        """A rank's share in a step: inputs and targets, both (2, width)."""
        generator = torch.Generator().manual_seed(10_000 * self.seed + 100 * step + rank)
        x, y = torch.randn(2, 2, self.width, generator=generator, dtype=getattr(torch, self.dtype))
        return x, y

    def make_optimizer(self, tensors: Sequence[Tensor]) -> torch.optim.Optimizer:
        """What the answer is given to make its optimizer with. SGD because AdamW divides a wrong
        scale out again."""
        if self.optimizer == "adamw":
            return torch.optim.AdamW(tensors, lr=0.01, weight_decay=0.1)
        return torch.optim.SGD(tensors, lr=0.2, momentum=0.9)

    def spoil(self, model: Model, step: int, rank: int) -> Any:
        """If this is the step and the rank (1) of the overflow: have one gradient's last element
        come out infinite."""
        weight = model.blocks[0].into.weight
        if step != self.overflow_at or rank != 1:
            return None
        at_the_end = torch.zeros(weight.numel(), dtype=weight.dtype)
        at_the_end[-1] = inf
        return weight.register_hook(lambda gradient: gradient + at_the_end.view(gradient.shape))


def plain(draw: Random, n: int, depth: int, **kind: Any) -> Case:
    """A hidden case: a model of `depth` equal blocks whose every parameter n divides."""
    width, inner = (n * draw.choice([3, 4]) for _ in range(2))
    dtype, seed = draw.choice(["float32", "float64"]), draw.randint(1, 10**6)
    return Case(n, width, (inner,) * depth, dtype=dtype, seed=seed, **kind)


def uneven(draw: Random, n: int, depth: int, criterion: str = "padding", **kind: Any) -> Case:
    """A hidden case: a model whose blocks differ, and of whose elements n leaves some over: in all,
    in a block, in a parameter."""
    while True:
        inner = tuple(draw.randint(6, 12) for _ in range(depth))
        dtype, seed = draw.choice(["float32", "float64"]), draw.randint(1, 10**6)
        width = draw.randint(5, 9)
        case = Case(n, width, inner, criterion, gain=True, dtype=dtype, seed=seed, **kind)
        if case.numel % n and any(sum(block) % n for block in case.shapes):
            return case


class Block(nn.Module):
    """x + back(scale · tanh(into(x))), times `gain` if there is one. `watch` is told when the
    weights are used."""

    def __init__(self, width: int, inner: int, gain: bool) -> None:
        super().__init__()
        self.into, self.back = (
            nn.Linear(width, inner, bias=False),
            nn.Linear(inner, width, bias=False),
        )
        self.scale = nn.Parameter(torch.rand(inner) + 0.5)
        self.gain = nn.Parameter(torch.ones(())) if gain else None
        self.watch: Callable[[Block], None] | None = None
        self.must_see: Callable[[], None] = lambda: None

    def forward(self, x: Tensor) -> Tensor:
        self.must_see()
        if self.watch is not None:
            self.watch(self)
        y = self.back(self.into(x).tanh() * self.scale)
        return x + (y if self.gain is None else self.gain * y)

    def weights(self) -> list[Tensor]:
        """What forward reads, whether it still is a registered parameter or not."""
        return [
            w for w in (self.scale, self.gain, self.into.weight, self.back.weight) if w is not None
        ]


class Model(nn.Module):
    """Blocks one after the other; calling it with a batch gives the mean loss."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(case.width, inner, case.gain) for inner in case.inner)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return (x - y).square().mean()

    def be_seen_by(self, must_see: Callable[[], None]) -> None:
        """Have `must_see` called wherever a block computes."""
        for block in self.blocks:
            block.must_see = must_see

    def weights(self) -> list[Tensor]:
        """Every block's."""
        return [w for block in self.blocks for w in block.weights()]


@dataclass
class Right:
    """What one process comes to. `weights[s]`: all of them, flat, before step s; `norms[s]`: of the
    gradient before clipping.

    `own[r]`: the first step's gradient, had rank r's share been the whole batch.
    """

    weights: list[Tensor]
    norms: list[float]
    own: list[Tensor]


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """A copy, end to end."""
    return torch.cat([x.detach().flatten() for x in tensors])


@cache  # a launch may have many answers
def train_alone(case: Case) -> Right:
    """Three steps by one process on everybody's shares, with no answer near; a step whose gradient
    is not finite is skipped."""
    model = case.model()
    parameters, right = model.weights(), Right([flat(model.weights())], [], [])
    optimizer = case.make_optimizer(parameters)
    for step in range(STEPS):
        own = []
        for rank in range(case.ranks):
            hook = case.spoil(model, step, rank)
            own.append(flat(torch.autograd.grad(model(*case.batch(step, rank)), parameters)))
            if hook is not None:
                hook.remove()
        right.own = right.own or own
        mean = sum(own) / case.ranks
        right.norms.append(mean.norm().item())
        if isfinite(right.norms[-1]):
            if right.norms[-1] > case.max_norm:
                mean *= case.max_norm / right.norms[-1]
            for parameter, gradient in zip(
                parameters, mean.split([p.numel() for p in parameters]), strict=True
            ):
                parameter.grad = gradient.view_as(parameter)
            optimizer.step()
        right.weights.append(flat(parameters))
    return right
