"""What one action of a pipeline stage does to a rank's memory, whatever else the rank holds at that
moment.

The passes of a stage differ only in whether they are the step's first (gradients come into being)
or its last (they are sent away). Where many shapes of one kind are asked, formulas come of it
(stage_play.py) into which each puts its numbers.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from ....config import TrainConfig
from ...program.kinds import kind_of, numbers_of, shard_name
from ...program.rank_shape import held_placements, held_units
from ...program.share import Share
from ...program.size import Shape
from ..exact.sync import has_buckets, small_enough
from .change import Change, Context
from .short import SHOWN
from .stage_play import Played, play_stage, stage_formulas

# the first shapes of a kind are played with their numbers: most kinds are met once or twice
SHAPES_BY_NUMBERS = 3
_asked: Counter[Played] = Counter()


class Pattern(NamedTuple):
    """A stage: whether it has the model's ends, and its runs of equal blocks, (how many,
    recomputed). `rows`: bytes of the tensor in which the tokens of all micro-batches lie, where
    they share one. `alone`: the parameter whose gradient is left without company in the last
    bucket."""

    embed: bool
    runs: tuple[tuple[int, bool], ...]
    head_loss: bool
    rows: int
    alone: str | None = None


@lru_cache(maxsize=8192)
def stage_changes(
    config: TrainConfig,
    pattern: Pattern,
    place: tuple[int, int],
    split_backward: bool,
    convention: str,
) -> dict[Context, Change]:
    """The changes by context, in bytes, on the rank at `place` (tp, cp). Of `config` only the
    model, the micro-batch, their number and how a rank runs them matter."""
    p, model, tp_rank = config.parallel, config.model, place[0]
    share = Share.of(config, *place)
    numbers = numbers_of(model, config.micro_batch, share, p.dp) | {"rows": pattern.rows}
    blocks, again, left_out = 0, [], []
    for i, (count, recomputed) in enumerate(pattern.runs):
        shown = min(count, SHOWN)
        again += range(blocks, blocks + shown) if recomputed else ()
        if count > SHOWN:
            left_out.append((f"blocks.{blocks + 1}", f"blocks left out {i}"))
            numbers[left_out[-1][1]] = count - SHOWN
        blocks += shown
    parts = (
        *["embed"] * pattern.embed,
        *(f"blocks.{i}" for i in range(blocks)),
        *["head_loss"] * pattern.head_loss,
    )
    together: frozenset[str] = frozenset()
    if p.zero:
        numbers |= {
            shard_name(unit): unit.numel // p.replicas
            for unit in held_units(config, parts, tp_rank)
        }
    elif has_buckets(config):
        # this stage's gradients share buckets with those of the rank's other stages, too
        here = held_placements(config, parts, tp_rank)
        numels = {name: place.numel for name, place in here.items()}
        together = small_enough(config, numels) - {pattern.alone}
    kind = kind_of(
        model,
        config.precision,
        numbers,
        share=share,
        layers=max(blocks, 1),
        recomputed=tuple(again),
        selective=config.recompute == "selective",
        zero=p.zero,
        micro_batches=min(config.micro_batches, 3 if p.zero == 1 else 2),
    )
    played = Played(
        kind, parts, tuple(left_out), pattern.rows > 0, together, split_backward, convention
    )
    _asked[played] += 1
    changes = (
        stage_formulas(played)
        if _asked[played] > SHAPES_BY_NUMBERS
        else play_stage(played, numbers)
    )
    shape = Shape(numbers)
    return {context: change.at(shape) for context, change in changes.items()}
