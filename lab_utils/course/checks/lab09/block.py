"""The small network of exercise 4, whole on one process and cut on a grid: what every rank holds,
and what its gradients must be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from ....i18n import t
from . import groups

WIDTH, WIDE = 6, 16
ITEM = 8  # bytes of a float64
NAMES = ("s", "A", "B")
Block = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Case(groups.Case):
    """`blocks` blocks on a grid, `rows` rows of the batch for each dp rank."""

    blocks: int = 3
    rows: int = 3
    seed: int = 0

    @property
    def ranks(self) -> int:
        """Processes."""
        return prod(self.sizes)

    def __str__(self) -> str:
        grid, s = super().__str__(), "s" * (self.blocks > 1)
        return t(f"{grid}, {self.blocks} block{s}", f"{grid}、{self.blocks} 个块")

    @property
    def message(self) -> int:
        """Bytes of the activations at a cut."""
        return ITEM * self.rows * WIDTH

    def place(self, rank: int) -> dict[str, int]:
        """The rank's position on every axis."""
        return {axis: self.right(rank, axis).index(rank) for axis in self.order}

    def stage(self, rank: int) -> list[int]:
        """Numbers of the blocks that the rank's stage holds; stages need not be alike."""
        dealt = torch.arange(self.blocks).tensor_split(self.flags()["pp"])
        return dealt[self.place(rank)["pp"]].tolist()

    def cut(self, block: Block, rank: int) -> Block:
        """The rank's part of a block, or of its gradients: s whole, A by columns, B by rows."""
        mine = torch.arange(WIDE).tensor_split(self.flags()["tp"])[self.place(rank)["tp"]]
        s, A, B = block
        return s.clone(), A[:, mine].clone(), B[mine].clone()

    def share(self, rank: int) -> tuple[Tensor, Tensor]:
        """The rows of x and y of the rank's dp position."""
        begin = self.rows * self.place(rank)["dp"]
        x, y = batch(self)
        return x[begin : begin + self.rows].clone(), y[begin : begin + self.rows].clone()


@dataclass(frozen=True)
class Right:
    """One process's loss and, of every block, gradients."""

    loss: float
    gradients: tuple[Block, ...]


@lru_cache(maxsize=32)
def batch(case: Case) -> tuple[Tensor, Tensor]:
    """x and y, all rows."""
    g = torch.Generator().manual_seed(case.seed)
    rows = case.rows * case.flags()["dp"]
    x, y = (torch.randn(rows, WIDTH, generator=g, dtype=torch.float64) for _ in "xy")
    return x, y


@lru_cache(maxsize=32)
def network(case: Case) -> tuple[Block, ...]:
    """Every block, whole."""
    g = torch.Generator().manual_seed(case.seed + 1)
    shapes = (WIDTH,), (WIDTH, WIDE), (WIDE, WIDTH)
    return tuple(
        tuple(torch.randn(shape, generator=g, dtype=torch.float64) / 2 for shape in shapes)
        for _ in range(case.blocks)
    )


@lru_cache(maxsize=128)
def right(case: Case, position: int | None = None) -> Right:
    """Of the whole batch, or of the rows of one dp position alone."""
    blocks = [tuple(w.clone().requires_grad_() for w in block) for block in network(case)]
    x, y = batch(case)
    if position is not None:
        rows = slice(case.rows * position, case.rows * (position + 1))
        x, y = x[rows], y[rows]
    for s, A, B in blocks:
        x = F.gelu((x * s) @ A) @ B
    loss = (x - y).square().mean()
    loss.backward()
    return Right(loss.item(), tuple(tuple(w.grad for w in block) for block in blocks))
