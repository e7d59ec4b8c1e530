"""Matrices that ranks hold in parts, made whole for Muon: every matrix goes to one owner, which
works on it alone, and the result goes back in parts.

ZeRO cuts a matrix over the data axis, tensor parallelism over tp: two exchanges, one inside the
other, each an all-to-all there and one back. A rank sends what it holds and what it owns, once;
gathering every matrix everywhere (Liu et al. 2025, "Muon is Scalable for LLM Training", section
2.3) would send N/2 times as much and do the same work N times. Where the data ranks hold whole
replicas there is nothing to exchange along them: each does the same work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..layout.optimizer_runs import matrices, owners
from ..layout.placement import Placement
from ..layout.units import Unit
from ..optimizers.muon import direction_of
from ..parallel.comm import Axis
from ..parallel.mesh import Mesh


class Exchange:
    """Some tensors over one axis: `parts[i][r]` elements of the i-th lie on rank r, and
    `owner[i]` gets all of them."""

    def __init__(self, axis: Axis, parts: Sequence[Sequence[int]], owner: Sequence[int]) -> None:
        self.axis, self.parts, ranks = axis, parts, range(axis.size)
        self.of = [[i for i, one in enumerate(owner) if one == r] for r in ranks]
        self.owned = self.of[axis.rank]
        # elements to and from every rank, on the way to the owners
        self.leaving = [sum(parts[i][axis.rank] for i in self.of[r]) for r in ranks]
        self.arriving = [sum(parts[i][r] for i in self.owned) for r in ranks]

    def to_owners(self, mine: Sequence[Tensor]) -> list[list[Tensor]]:
        """From this rank's part of every tensor (flat) to all parts, by rank, of those it owns."""
        outgoing = torch.cat([mine[i].view(-1) for of_rank in self.of for i in of_rank])
        incoming = outgoing.new_empty(sum(self.arriving))
        self._send(outgoing, self.leaving, incoming, self.arriving)
        sizes = [self.parts[i][r] for r in range(self.axis.size) for i in self.owned]
        found = incoming.split(sizes)
        return [list(found[place :: len(self.owned)]) for place in range(len(self.owned))]

    def back(self, owned: Sequence[Sequence[Tensor]]) -> list[Tensor]:
        """From all parts of the owned tensors to this rank's part of every tensor."""
        outgoing = [parts[r] for r in range(self.axis.size) for parts in owned]
        together = torch.cat([x.reshape(-1) for x in outgoing] or [torch.empty(0)])
        incoming = together.new_empty(sum(self.leaving))
        self._send(together, self.arriving, incoming, self.leaving)
        order = [i for of_rank in self.of for i in of_rank]
        found = incoming.split([self.parts[i][self.axis.rank] for i in order])
        return [part for _, part in sorted(zip(order, found, strict=True), key=lambda x: x[0])]

    def _send(self, x: Tensor, leaving: list[int], y: Tensor, arriving: list[int]) -> None:
        self.axis.all_to_all_parts(
            x, leaving, y, arriving, purpose="update", label="whole matrices"
        ).wait()


class WholeMatrices:
    """What `Muon` is given for `directions`: from this rank's pieces of all its stage's matrices to
    the same pieces of their steps. `dtype`: of the orthogonalisation."""

    def __init__(
        self,
        mesh: Mesh,
        everywhere: Sequence[Mapping[str, Placement]],
        units: Sequence[Unit],
        held: Sequence[str],
        dtype: torch.dtype | None = None,
    ) -> None:
        """`everywhere`: the placements on every tp rank of this stage; `units`: ZeRO's, or none;
        `held`: the matrices of which this rank has a piece, in the optimizer's order."""
        self.dtype, self.held, self.device, tp = dtype, held, mesh.device, mesh["tp"]
        self.here = everywhere[tp.rank]
        self.names = matrices(self.here)
        data = (
            Exchange(mesh.data, *_over_data(self.names, units, mesh.data.size)) if units else None
        )
        self.data, mine = data, self.names if data is None else [self.names[i] for i in data.owned]
        self.mine = mine
        self.over_tp = tp.size > 1 and any(self.here[name].dim is not None for name in mine)
        parts = [[place[name].numel for place in everywhere] for name in mine]
        self.cuts = [[place[name] for place in everywhere] for name in mine]
        self.tp = Exchange(tp, parts, owners([sum(one) for one in parts], tp.size))

    def __call__(self, pieces: list[Tensor]) -> list[Tensor]:
        mine = dict(zip(self.held, pieces, strict=True))
        nothing = torch.empty(0, device=self.device)
        found = self._of_data_ranks([mine.get(name, nothing) for name in self.names])
        steps = dict(zip(self.names, found, strict=True))
        return [steps[name] for name in self.held]

    def _of_data_ranks(self, pieces: list[Tensor]) -> list[Tensor]:
        """The steps, flat, of this rank's piece of every matrix."""
        if self.data is None:
            return self._of_tensor_ranks(pieces)
        steps = self._of_tensor_ranks([torch.cat(one) for one in self.data.to_owners(pieces)])
        sizes = [self.data.parts[i] for i in self.data.owned]
        return self.data.back([x.split(s) for x, s in zip(steps, sizes, strict=True)])

    def _of_tensor_ranks(self, local: list[Tensor]) -> list[Tensor]:
        """The steps, flat, of matrices that are whole along the data axis; their memory is used
        again where they are whole altogether."""
        if not self.over_tp:
            for x, name in zip(local, self.mine, strict=True):
                matrix = x.view(self.here[name].local_shape)
                matrix.copy_(direction_of(matrix, self.dtype))
            return local
        arrived = self.tp.to_owners(local)
        done = [self._joined(i, arrived.pop(0)) for i in self.tp.owned]
        return self.tp.back(done)

    def _joined(self, i: int, parts: list[Tensor]) -> tuple[Tensor, ...]:
        """The step of the i-th matrix, from its parts on the tp ranks, in such parts."""
        cut = self.cuts[i]
        shaped = [x.view(place.local_shape) for x, place in zip(parts, cut, strict=True)]
        step = direction_of(torch.cat(shaped, dim=cut[0].dim), self.dtype)
        return step.split([place.length for place in cut], dim=cut[0].dim)


def _over_data(
    names: Sequence[str], units: Sequence[Unit], ranks: int
) -> tuple[list[list[int]], list[int]]:
    """(elements of each matrix on each rank, its owner) under ZeRO."""
    parts = {name: [0] * ranks for name in names}
    for unit in units:
        for rank in range(ranks):
            for name, _, numel, _ in unit.pieces(ranks, rank):
                if name in parts:
                    parts[name][rank] = numel
    held = [parts[name] for name in names]
    return held, owners([sum(one) for one in held], ranks)
