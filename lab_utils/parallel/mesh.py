"""The rank grid: axes (dp, pp, cp, tp), tp innermost, so that the ranks that talk most stand side
by side."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..config import ParallelConfig
from .comm import Axis
from .ledger import Ledger

AXES = ("dp", "pp", "cp", "tp")  # the outermost first


class Mesh:
    """Where this rank stands, and its axes: `mesh["dp"]` is an Axis, of one rank where that degree
    is 1. `mesh.data` is dp and cp as one.

    All axes share one ledger. The process group must be initialised, with as many ranks as the
    degrees' product. For a model of your own the axes may be any: `sizes` by name, the outermost
    first, and `joined` ones, neighbours seen as one: `Mesh(sizes={"edp": 2, "ep": 4},
    joined={"dp": ("edp", "ep")})`.
    """

    def __init__(
        self,
        parallel: ParallelConfig | None = None,
        *,
        sizes: Mapping[str, int] | None = None,
        joined: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        if parallel is not None:
            sizes = {name: getattr(parallel, name) for name in AXES}
            joined = {"dp_cp": ("dp", "cp")} if parallel.dp > 1 and parallel.cp > 1 else {}
        self.ledger, self.rank = Ledger(), dist.get_rank()
        self.device = (
            torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            if "nccl" in dist.get_backend()
            else torch.device("cpu")
        )
        self._names = tuple(sizes)
        wide = {name: n for name, n in sizes.items() if n > 1}
        grid = (
            init_device_mesh(self.device.type, tuple(wide.values()), mesh_dim_names=tuple(wide))
            if wide
            else None
        )
        self._axes = {name: Axis(name, [self.rank], 0, None, self.ledger) for name in sizes}
        for name in wide:
            self._axes[name] = self._axis(name, grid[name].get_group())
        for name, several in (joined or {}).items():
            group = _group_of(grid, name, [one for one in several if one in wide])
            self._axes[name] = (
                Axis(name, [self.rank], 0, None, self.ledger)
                if group is None
                else self._axis(name, group)
            )

    def _axis(self, name: str, group: dist.ProcessGroup) -> Axis:
        ranks = dist.get_process_group_ranks(group)
        return Axis(name, ranks, ranks.index(self.rank), group, self.ledger)

    def __getitem__(self, name: str) -> Axis:
        return self._axes[name]

    @property
    def data(self) -> Axis:
        """The axis of all ranks that train the same weights, whole or in shards: over it gradients
        are summed."""
        if "dp_cp" in self._axes:
            return self._axes["dp_cp"]
        return self._axes["cp" if self._axes["cp"].size > 1 else "dp"]

    @property
    def sizes(self) -> dict[str, int]:
        """Ranks along every axis, joined ones included."""
        return {name: axis.size for name, axis in self._axes.items()}

    @property
    def coords(self) -> dict[str, int]:
        """This rank's position on every axis of the grid."""
        return {name: self._axes[name].rank for name in self._names}


def _group_of(grid: DeviceMesh | None, name: str, several: list[str]) -> dist.ProcessGroup | None:
    """The group of axes seen as one; None where all have one rank."""
    if not several:
        return None
    together = grid[tuple(several)]
    return (together._flatten(name) if len(several) > 1 else together).get_group()
