"""Where tensor-parallel ranks exchange activations: parallel/tensor.py's regions over values
without numbers, and what they send."""

from __future__ import annotations

from .conventions import Collectives
from .live import Value
from .model import Program


class Regions:
    """What a rank's program does where it meets the other tensor-parallel ranks."""

    def __init__(self, program: Program) -> None:
        parallel = program.config.parallel
        self.program, self.torch, self.ranks = program, program.torch, parallel.tp
        self.scattered = parallel.sequence_parallel and self.ranks != 1

    def send(self, op: str, nbytes: int) -> None:
        """Note a message to the other ranks, if there are any."""
        if self.ranks != 1:
            self.program.send(op, "tp", nbytes)

    def gather(self, x: Value, at_once: bool = True) -> tuple[Value, Value | None]:
        """The whole, and what the collective holds until nobody refers to it. `at_once`: it is
        waited for where it begins."""
        if not self.scattered:
            return x, None
        torch, way = self.torch, self.torch.convention.collectives
        whole = torch.new(self.ranks * x.numel, x.width, x.nbytes)
        copy = torch.new(x.numel, x.width, x.nbytes) if way is not Collectives.IN_PLACE else None
        self.send("all_gather", whole.nbytes)
        return whole, None if at_once and way is Collectives.NCCL else copy

    def waited(self, gathering: Value | None) -> Value | None:
        """What a collective that was waited for still holds."""
        return None if self.torch.convention.collectives is Collectives.NCCL else gathering

    def reduce(self, summand: Value) -> tuple[Value, Value | None]:
        """The sum, a view of the summand, and the room that the collective takes until it is waited
        for: a ring's for what comes in, or a copy of the summand."""
        if not self.scattered:
            self.send("all_reduce", summand.nbytes)
            return summand, None
        self.send("reduce_scatter", summand.nbytes)
        part, copies = (
            summand.numel // self.ranks,
            self.torch.convention.collectives is Collectives.NCCL,
        )
        return Value(summand.storage, part, summand.width), self.torch.new(
            summand.numel if copies else part, summand.width
        )

    def own(self, shard: Value) -> Value:
        """The rank's share as a tensor of its own, which keeps nothing else alive."""
        return (
            self.torch.new(shard.numel, shard.width, shard.nbytes)
            if self.scattered
            else Value(shard.storage, shard.numel, shard.width)
        )
