"""What a rank's optimizer updates: whole parameters, or under ZeRO this rank's shard of each
unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..layout.placement import Placement
from .comm import Axis
from .mesh import Mesh


class Piece(NamedTuple):
    """A run of one parameter's elements inside an OptimizerShard: `first` counts there, `offset` in
    the local parameter."""

    parameter: str
    first: int
    numel: int
    offset: int


@dataclass
class OptimizerShard:
    """One tensor that this rank updates. `gradient()` has its shape, and is final once all ranks'
    have been summed."""

    name: str
    weight: Tensor
    gradient: Callable[[], Tensor]
    pieces: tuple[Piece, ...]

    def gradient_of(self, piece: Piece) -> Tensor:
        """A flat view of one piece's gradient."""
        return self.gradient().view(-1)[piece.first : piece.first + piece.numel]


def all_reduce_shared(
    shards: list[OptimizerShard], placements: Mapping[str, Placement], mesh: Mesh
) -> None:
    """Add up gradients over the axes along which they are summands (`Placement.sum_over`).

    Over tp, what sequence parallelism showed to every rank for its own tokens only (norms, the
    biases added after a row-parallel product, positions): all such pieces in one all-reduce. Over
    pp, a tied embedding, used by the first stage to read and by the last to write: the two send
    each other theirs.
    """

    def summands(shard: OptimizerShard, axis: str) -> list[Tensor]:
        return [
            shard.gradient_of(piece)
            for piece in shard.pieces
            if axis in placements[piece.parameter].sum_over
        ]

    _all_reduce_together([g for o in shards for g in summands(o, "tp")], mesh["tp"])
    for o in shards:
        if summands(o, "pp"):
            _exchange_and_add(o.gradient(), mesh["pp"])


def _all_reduce_together(gradients: list[Tensor], axis: Axis) -> None:
    if not gradients:
        return
    together = torch.cat(gradients)
    axis.all_reduce(together, purpose="gradient", label="seen in parts").wait()
    totals = together.split([gradient.numel() for gradient in gradients])
    for gradient, total in zip(gradients, totals, strict=True):
        gradient.copy_(total)


def _exchange_and_add(gradient: Tensor, axis: Axis) -> None:
    # first stage and last stage
    other, theirs = axis.size - 1 - axis.rank, torch.empty_like(gradient)
    axis.exchange(gradient, other, theirs, other, purpose="gradient", label="tied embedding")
    gradient.add_(theirs)


def sum_of_squares(
    shards: list[OptimizerShard], placements: Mapping[str, Placement], mesh: Mesh, sharded: bool
) -> Tensor:
    """The squared norm of the whole model's gradient (0-dim float64), the same on every rank; every
    element counts once.

    A parameter that all tp ranks hold is counted by the first, a tied embedding by the first stage.
    `sharded`: the data ranks own different pieces, else the same. Anything that is not finite on
    any rank makes it not finite on all.
    """
    total = torch.zeros((), dtype=torch.float64, device=mesh.device)
    for o in shards:
        for piece in o.pieces:
            place = placements[piece.parameter]
            if not place.copy and (place.dim is not None or mesh["tp"].rank == 0):
                total += (
                    torch.linalg.vector_norm(o.gradient_of(piece), dtype=torch.float32)
                    .double()
                    .square()
                )
    for axis in (*([mesh.data] if sharded else ()), mesh["pp"], mesh["tp"]):
        axis.all_reduce(total, purpose="control", label="gradient norm").wait()
    return total
