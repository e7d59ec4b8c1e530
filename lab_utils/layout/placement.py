"""Where every parameter lives: on which stages, which part of it on which tensor-parallel rank, and
who else holds the same.

Along tp a weight is cut as its layer's style says (tensor_styles.py). Sizes that the degree does
not divide are cut unevenly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..config import ModelConfig, ParallelConfig
from .parameters import parameter_shapes
from .stages import part_of, stage_layers, stages_of_rank
from .tensor_styles import TENSOR_STYLES


@dataclass(frozen=True)
class Placement:
    """One parameter on one rank: `length` of its `shape` from `start` along `dim`, which is cut
    over tp; dim None: all of it, on every tp rank.

    `sum_over`: the axes along which several ranks hold the same of it and each sees only a part of
    its use, so that their gradients are summands. Over the data axes (dp, cp) that is so of every
    parameter, and not said here. "tp": sequence parallelism shows a rank its own tokens only; "pp":
    a tied embedding stands on the first stage and on the last.
    """

    name: str
    shape: tuple[int, ...]
    dim: int | None = None
    start: int = 0
    length: int = 0
    sum_over: frozenset[str] = frozenset()
    # the last stage's copy of a tied embedding; the first stage holds the original
    copy: bool = False

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
            summands = {
                "tp": sequence_parallel and tp > 1 and cut is None,
                "pp": tied and stages > 1,
            }
            sum_over = frozenset(axis for axis, holds in summands.items() if holds)
            found[name] = Placement(
                name, shape, *(cut or (None, 0, 0)), sum_over, copy=stage not in here
            )
    return found


def heads_of_rank(model: ModelConfig, tp: int, tp_rank: int) -> tuple[int, int]:
    """(first, count) of the key/value heads on a tensor-parallel rank; its query heads are those
    times the group's size."""
    return part_of(model.kv_heads, tp, tp_rank)


def _cut(name: str, model: ModelConfig, tp: int, tp_rank: int) -> tuple[int, int, int] | None:
    """(dim, start, length) of a rank's part; None for what every tp rank holds whole."""
    module, kind = name.split(".")[-2:]
    style = TENSOR_STYLES.get(module)
    if tp == 1 or style is None or style.style == "row" and kind == "bias":
        return None
    if style.shared in ("ffn", "vocab"):
        return style.dim, *part_of(getattr(model, style.shared), tp, tp_rank)
    first, count = heads_of_rank(model, tp, tp_rank)
    group = model.heads // model.kv_heads if style.shared == "query heads" else 1
    width = group * model.head_dim
    return style.dim, first * width, count * width
