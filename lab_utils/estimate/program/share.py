"""What of the model and of every sequence one rank works on."""

from __future__ import annotations

from typing import NamedTuple

from ...config import ContextParallel, TrainConfig


class Share(NamedTuple):
    """A rank's place on the axes that cut a layer: tp its matrices, cp its tokens.

    Of the cp ranks the first alone meets no rank before it; the others need alike, so `cp_rank` is
    0 or 1 (layout.context.meetings).
    """

    tp: int = 1
    tp_rank: int = 0
    sequence_parallel: bool = False
    cp: int = 1
    cp_rank: int = 0
    cp_kind: ContextParallel = "ring"

    @classmethod
    def of(cls, config: TrainConfig, tp_rank: int = 0, cp_rank: int = 0) -> Share:
        """That of the rank at these coordinates."""
        p = config.parallel
        return cls(
            p.tp, tp_rank, p.sequence_parallel, p.cp, alike_in_ring(config, cp_rank), p.cp_kind
        )


ALONE = Share()


def alike_in_ring(config: TrainConfig, cp_rank: int) -> int:
    """The first cp rank that needs as much as this one."""
    return min(cp_rank, 1) if config.parallel.cp_kind == "ring" else 0
