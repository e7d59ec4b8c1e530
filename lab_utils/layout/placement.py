"""Where every parameter lives: on which stages, which part of it on which tensor-parallel rank, and
who else holds the same.

Column-parallel weights (query, key, value, gate, up) are cut by output features, row-parallel ones
(output, down) by input features, embedding and head by vocabulary (Shoeybi et al. 2019,
"Megatron-LM", section 3). Heads stay whole, and query heads stay with their key/value head. Sizes
that the degree does not divide are cut unevenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..config import ModelConfig, ParallelConfig
from .parameters import parameter_shapes
from .stages import part_of, stage_layers, stages_of_rank


@dataclass(frozen=True)
class Placement:
    """One parameter on one rank: `length` of its `shape` from `start` along `dim`; dim None: all of
    it, on every tp rank."""

    name: str
    shape: tuple[int, ...]
    dim: int | None = None
    start: int = 0
    length: int = 0
    # under sequence parallelism a rank sees some tokens only: gradients are summed over tp
    partial: bool = False
    # the last stage's copy of a tied embedding; the first stage holds the original
    copy: bool = False
    shared_over_pp: bool = False

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of what this rank holds."""
        if self.dim is None:
            return self.shape
        return tuple(self.length if d == self.dim else size for d, size in enumerate(self.shape))

    @property
    def numel(self) -> int:
        """Elements that this rank holds."""
        count = 1
        for size in self.local_shape:
            count *= size
        return count


def stage_of(name: str, model: ModelConfig, stages: int) -> int:
    """The pipeline stage that a parameter belongs to."""
    if name.startswith("blocks."):
        layer = int(name.split(".")[1])
        return next(
            s for s, layers in enumerate(stage_layers(model.layers, stages)) if layer in layers
        )
    return 0 if name.startswith(("token_embedding", "position_embedding")) else stages - 1


def placements(
    model: ModelConfig, parallel: ParallelConfig, pp_rank: int, tp_rank: int
) -> Mapping[str, Placement]:
    """Every parameter on the rank at these coordinates, by name, in the order of the forward
    pass."""
    p = parallel
    return _placements(model, p.tp, p.pp, p.virtual_stages, p.sequence_parallel, pp_rank, tp_rank)


@lru_cache(maxsize=4096)  # whatever the data-parallel degree and the ZeRO stage
def _placements(
    model: ModelConfig,
    tp: int,
    pp: int,
    virtual_stages: int,
    sequence_parallel: bool,
    pp_rank: int,
    tp_rank: int,
) -> Mapping[str, Placement]:
    stages = pp * virtual_stages
    here = stages_of_rank(pp_rank, pp, virtual_stages)
    found = {}
    for name, shape in parameter_shapes(model).items():
        stage, tied = stage_of(name, model, stages), model.tied and name == "token_embedding.weight"
        on_last = tied and stages > 1 and stages - 1 in here
        if stage in here or on_last:
            cut = _cut(name, model, tp, tp_rank)
            partial = sequence_parallel and tp > 1 and cut is None
            dim, start, length = cut or (None, 0, 0)
            found[name] = Placement(
                name,
                shape,
                dim,
                start,
                length,
                partial,
                copy=stage not in here,
                shared_over_pp=tied and stages > 1,
            )
    return found


def heads_of_rank(model: ModelConfig, tp: int, tp_rank: int) -> tuple[int, int]:
    """(first, count) of the key/value heads on a tensor-parallel rank; its query heads are those
    times the group's size."""
    return part_of(model.kv_heads, tp, tp_rank)


def _cut(name: str, model: ModelConfig, tp: int, tp_rank: int) -> tuple[int, int, int] | None:
    """(dim, start, length) of a rank's part; None for what every tp rank holds whole."""
    if tp == 1:
        return None
    module, kind = name.split(".")[-2:]
    if module in ("query", "key", "value", "output"):
        first, count = heads_of_rank(model, tp, tp_rank)
        width = model.head_dim * (
            1 if module in ("key", "value") else model.heads // model.kv_heads
        )
        along = first * width, count * width
    elif module in ("gate", "up", "down"):
        along = part_of(model.ffn, tp, tp_rank)
    elif module in ("token_embedding", "head"):
        along = part_of(model.vocab, tp, tp_rank)
    else:
        return None
    if module in ("output", "down"):
        return None if kind == "bias" else (1, *along)
    return (0, *along)
