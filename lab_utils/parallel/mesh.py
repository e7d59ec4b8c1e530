"""The rank grid: axes (dp, pp, tp), tp innermost, so that the ranks that talk most stand side by
side."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from ..config import ParallelConfig
from .comm import Axis
from .ledger import Ledger

AXES = ("dp", "pp", "tp")


class Mesh:
    """Where this rank stands, and its axes: `mesh["dp"]` is an Axis, of one rank where that degree
    is 1.

    All axes share one ledger. The process group must be initialised, with as many ranks as the
    degrees' product.
    """

    def __init__(self, parallel: ParallelConfig) -> None:
        self.ledger = Ledger()
        degrees = {name: getattr(parallel, name) for name in AXES}
        self.rank = dist.get_rank()
        self.device = (
            torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            if "nccl" in dist.get_backend()
            else torch.device("cpu")
        )
        wide = {name: degree for name, degree in degrees.items() if degree > 1}
        grid = (
            init_device_mesh(self.device.type, tuple(wide.values()), mesh_dim_names=tuple(wide))
            if wide
            else None
        )
        self._axes = {name: Axis(name, [self.rank], 0, None, self.ledger) for name in AXES}
        for name in wide:
            group = grid.get_group(name)
            self._axes[name] = Axis(
                name,
                dist.get_process_group_ranks(group),
                grid.get_local_rank(name),
                group,
                self.ledger,
            )

    def __getitem__(self, name: str) -> Axis:
        return self._axes[name]

    @property
    def coords(self) -> dict[str, int]:
        """This rank's position on every axis."""
        return {name: axis.rank for name, axis in self._axes.items()}
