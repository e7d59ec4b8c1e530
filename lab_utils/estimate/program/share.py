"""What of the model and of every sequence one rank works on."""

from __future__ import annotations

from typing import NamedTuple

from ...config import ContextParallel, TrainConfig


class Share(NamedTuple):
    """A rank's place on the axes that cut a layer: tp its matrices, cp its tokens.

    Of the ring's ranks the first meets none before it, the last none after it, and all between
    need alike (layout.context.meetings): `cp_rank` is the first of those that do.
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
    p = config.parallel
    if p.cp_kind != "ring":
        return 0
    return cp_rank if cp_rank in (0, p.cp - 1) else 1
