"""Where tensor-parallel ranks exchange activations: parallel/tensor.py's regions over values
without numbers, and what they send."""

from __future__ import annotations

from collections.abc import Mapping

from ...config import TrainConfig
from .attention import Torch
from .live import Value
from .model import Program


class Regions(Program):
    """One tensor-parallel rank's part of the model."""

    def __init__(
        self,
        torch: Torch,
        config: TrainConfig,
        shapes: Mapping[str, tuple[int, ...]],
        cp_rank: int = 0,
    ) -> None:
        super().__init__(torch, config, shapes, cp_rank)
        self.ranks = config.parallel.tp
        self.scattered = config.parallel.sequence_parallel and self.ranks != 1

    def _send(self, op: str, nbytes: int) -> None:
        if self.ranks != 1:
            self.send(op, "tp", nbytes)

    def _gather(self, x: Value) -> tuple[Value, Value | None]:
        """The whole, and what the collective holds until nobody refers to it."""
        if not self.scattered:
            return x, None
        whole = self.torch.new(self.ranks * x.numel, x.width, x.nbytes)
        copy = self.torch.new(x.numel, x.width, x.nbytes)
        self._send("all_gather", whole.nbytes)
        return whole, copy

    def _reduce(self, summand: Value) -> tuple[Value, Value | None]:
        """The sum, a view of the summand, and the ring's room for what comes in."""
        if not self.scattered:
            self._send("all_reduce", summand.nbytes)
            return summand, None
        self._send("reduce_scatter", summand.nbytes)
        part = summand.numel // self.ranks
        return Value(summand.storage, part, summand.width), self.torch.new(part, summand.width)

    def _own(self, shard: Value) -> Value:
        return (
            self.torch.new(shard.numel, shard.width, shard.nbytes)
            if self.scattered
            else Value(shard.storage, shard.numel, shard.width)
        )
