"""Numbers about whole tensors from the ranks that hold their parts: all that Adafactor and 8-bit
Adam need of other ranks. To Adafactor a matrix of r × c costs r + c + 1 numbers on the wire, and
one more; to 8-bit Adam every block that ZeRO cuts costs two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..layout.optimizer_runs import BLOCK, SMALL, Run, cut_blocks
from ..layout.placement import Placement
from ..layout.units import Unit
from ..optimizers.adafactor import Part
from ..optimizers.adam8bit import Piece
from ..parallel.comm import Axis
from ..parallel.mesh import Mesh


class TensorSums:
    """What `Adafactor` is given for `add_up`. All numbers travel together; those of tensors that tp
    cuts, which come first, travel along tp too. `names`: the tensors of which this rank has a part,
    in the optimizer's order; `sharded`: whether the data ranks hold different parts (ZeRO)."""

    def __init__(
        self, mesh: Mesh, here: Mapping[str, Placement], names: Sequence[str], sharded: bool
    ) -> None:
        self.mesh, self.names, self.sharded = mesh, names, sharded
        self.places = sorted(here.values(), key=lambda place: place.dim is None)

    def __call__(self, numbers: list[Tensor], count: Callable[[tuple[int, ...]], int]) -> None:
        """Make each tensor's numbers the sum, in place; a tensor of a shape has `count(shape)`."""
        tp = self.mesh["tp"]
        if not self.sharded and tp.size == 1:
            return
        counts = [count(place.shape) for place in self.places]
        cut = sum(n for n, place in zip(counts, self.places, strict=True) if place.dim is not None)
        together = torch.zeros(sum(counts), device=self.mesh.device)
        slots = dict(
            zip((place.name for place in self.places), together.split(counts), strict=True)
        )
        for name, mine in zip(self.names, numbers, strict=True):
            slots[name].copy_(mine)
        if self.sharded:
            self.mesh.data.all_reduce(together, purpose="update", label="tensor sums").wait()
        if cut:
            tp.all_reduce(together[:cut], purpose="update", label="tensor sums").wait()
        for name, mine in zip(self.names, numbers, strict=True):
            mine.copy_(slots[name])


def part_of_run(run: Run, here: Mapping[str, Placement]) -> Part:
    """Where a run lies in its whole tensor."""
    place = here[run.parameter]
    start = tuple(place.start if d == place.dim else 0 for d in range(len(place.shape)))
    return Part(place.shape, place.local_shape, start, run.offset)


def cut_between_ranks(
    runs: Sequence[Run], here: Mapping[str, Placement], units: Sequence[Unit], data: Axis
) -> dict[str, Any]:
    """What `Adam8bit` is given: which parameters are small, where each piece lies, and how the
    largest elements of blocks that ZeRO cuts are agreed on."""
    numbers = {block: i for i, block in enumerate(cut_blocks(units, here, data.size))}

    def piece(run: Run) -> Piece:
        name, end = run.parameter, run.offset + run.numel
        return Piece(
            run.offset % BLOCK,
            numbers.get((name, run.offset // BLOCK)),
            numbers.get((name, end // BLOCK)) if end < here[name].numel else None,
        )

    def agree(largest: Tensor) -> None:
        data.all_reduce(largest, purpose="update", reduction="max", label="cut blocks").wait()

    return {
        "small": [here[run.parameter].numel < SMALL for run in runs],
        "pieces": [piece(run) for run in runs],
        "cut": len(numbers),
        "agree": agree,
    }
