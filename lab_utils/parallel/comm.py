"""Counted collectives: the only room of ours that calls torch.distributed to move data.

An Axis is one line of the rank grid (a mesh dimension): who stands on it, where we stand, and the
collectives along it. Each call enters the ledger before it leaves, with its payload and the wire
bytes of a ring; where we send the messages ourselves, their bytes replace those. On an axis of one
rank every collective is the identity and enters nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..i18n import t
from ..layout.ring import Hop, ring_all_gather, ring_reduce_scatter
from ..layout.wire import wire_bytes
from .ledger import Call, Ledger
from .pending import Arrival, Pending, Ring

REDUCTIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


def _all_gather(whole: Tensor, shard: Tensor, **options: Any) -> Any:
    # renamed in torch 2.13
    name = "all_gather_single" if hasattr(dist, "all_gather_single") else "all_gather_into_tensor"
    return getattr(dist, name)(whole, shard, **options)


def _reduce_scatter(shard: Tensor, whole: Tensor, **options: Any) -> Any:
    name = (
        "reduce_scatter_single"
        if hasattr(dist, "reduce_scatter_single")
        else "reduce_scatter_tensor"
    )
    return getattr(dist, name)(shard, whole, **options)


class Axis:
    """One axis of the mesh as this rank sees it.

    `rank` is the position on the axis, `ranks` the global ranks along it. Tensors are contiguous,
    on the axis's device.
    """

    def __init__(
        self,
        name: str,
        ranks: list[int],
        rank: int,
        group: dist.ProcessGroup | None,
        ledger: Ledger,
    ) -> None:
        self.name, self.ranks, self.rank, self.group, self.ledger = name, ranks, rank, group, ledger

    @property
    def size(self) -> int:
        """Ranks on the axis."""
        return len(self.ranks)

    def all_reduce(
        self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = ""
    ) -> Pending:
        """Every rank's `tensor` becomes the sum (or max) over the ranks, in place."""
        if self.size == 1:
            return Pending()
        call = self._open("all_reduce", purpose, tensor, label)
        return Pending(
            call, (dist.all_reduce(tensor, REDUCTIONS[reduction], group=self.group, async_op=True),)
        )

    def broadcast(self, tensor: Tensor, source: int, *, purpose: str, label: str = "") -> Pending:
        """Every rank's `tensor` becomes that of the rank at position `source`, in place."""
        if self.size == 1:
            return Pending()
        call = self._open("broadcast", purpose, tensor, label)
        return Pending(
            call, (dist.broadcast(tensor, self.ranks[source], group=self.group, async_op=True),)
        )

    def all_gather(self, whole: Tensor, *, purpose: str, label: str = "") -> Pending:
        """Every rank has filled its own 1/N of `whole` (rank r the r-th equal part); afterwards all
        parts are filled.

        Raises ValueError if N does not divide `whole`'s elements.
        """
        if self.size == 1:
            return Pending()
        shard = self._equal_parts(whole)[self.rank]
        call = self._open("all_gather", purpose, whole, label)
        own = shard.clone()  # the result is written over the shard while it is read
        return Pending(call, (_all_gather(whole, own, group=self.group, async_op=True),))

    def reduce_scatter(
        self, whole: Tensor, *, purpose: str, label: str = ""
    ) -> tuple[Tensor, Pending]:
        """The sum over ranks of this rank's 1/N of `whole`, as a view of it; the other parts are
        used up.

        On gloo a ring of messages, because gloo's own moves as much as an all-reduce; NCCL's own on
        NCCL. Raises ValueError if N does not divide `whole`'s elements.
        """
        if self.size == 1:
            return whole.view(-1), Pending()
        parts = self._equal_parts(whole)
        call = self._open("reduce_scatter", purpose, whole, label)
        if whole.is_cuda:
            work = _reduce_scatter(parts[self.rank], whole.clone(), group=self.group, async_op=True)
            return parts[self.rank], Pending(call, (work,))
        return parts[self.rank], Ring(
            call, self._ring(call, list(parts), ring_reduce_scatter(self.size))
        )

    def ring_all_reduce(self, tensor: Tensor, *, purpose: str, label: str = "") -> Pending:
        """All-reduce (sum) by the ring, step by step as `layout.ring` says: for reading, not for
        speed. In place.

        Raises ValueError if N does not divide the elements.
        """
        if self.size == 1:
            return Pending()
        parts = list(self._equal_parts(tensor))
        call = self._open("all_reduce", purpose, tensor, label)
        return Ring(
            call,
            self._ring(call, parts, ring_reduce_scatter(self.size) + ring_all_gather(self.size)),
        )

    def send(
        self, tensor: Tensor, to: int, *, purpose: str, label: str = "", channel: int = 0
    ) -> Pending:
        """Send to position `to`; the tensor must stay as it is until the send is waited for.
        Messages on one channel arrive in the order in which they were sent."""
        call = self._open("send", purpose, tensor, label)
        call.messages_counted = True
        return Pending(call, (dist.isend(tensor, self.ranks[to], group=self.group, tag=channel),))

    def receive(self, tensor: Tensor, source: int, *, channel: int = 0) -> Pending:
        """Fill `tensor` with what position `source` sends next on `channel`. Counted by the
        sender."""
        return Arrival(
            dist.irecv(tensor, self.ranks[source], group=self.group, tag=channel), self.ledger
        )

    def exchange(
        self,
        outgoing: Tensor,
        to: int,
        incoming: Tensor,
        source: int,
        *,
        purpose: str,
        label: str = "",
    ) -> None:
        """Send `outgoing` to position `to` and at the same time receive `incoming` from position
        `source`. Blocks."""
        if self.size == 1:
            incoming.copy_(outgoing)
            return
        call = self._open("send", purpose, outgoing, label)
        call.messages_counted = True
        Pending(call, self._swap(outgoing, to, incoming, source)).wait()

    def pass_on(
        self, outgoing: Tensor, incoming: Tensor, *, purpose: str, label: str = "", channel: int = 0
    ) -> Pending:
        """Send `outgoing` to the next rank of the ring and receive `incoming` from the one before;
        both must be left alone until it is waited for."""
        call = self._open("send", purpose, outgoing, label)
        call.messages_counted = True
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        return Pending(call, self._swap(outgoing, after, incoming, before, channel))

    def all_to_all(
        self, outgoing: Tensor, incoming: Tensor, *, purpose: str, label: str = ""
    ) -> Pending:
        """The r-th of N equal parts of `outgoing` goes to rank r; `incoming`, as large, fills with
        the parts that the ranks have for us, in their order. Raises ValueError if N does not divide
        the elements."""
        if self.size == 1:
            incoming.copy_(outgoing)
            return Pending()
        self._equal_parts(outgoing)
        call = self._open("all_to_all", purpose, outgoing, label)
        work = dist.all_to_all_single(incoming, outgoing, group=self.group, async_op=True)
        return Pending(call, (work,))

    def all_to_all_parts(
        self,
        outgoing: Tensor,
        leaving: list[int],
        incoming: Tensor,
        arriving: list[int],
        *,
        purpose: str,
        label: str = "",
    ) -> Pending:
        """The same with parts of any size: `leaving[r]` elements of `outgoing` go to rank r,
        `arriving[r]` of `incoming` come from it. On the wire is what goes to another rank."""
        if self.size == 1:
            incoming.copy_(outgoing)
            return Pending()
        call = self._open("all_to_all", purpose, outgoing, label)
        call.wire_bytes = (sum(leaving) - leaving[self.rank]) * outgoing.element_size()
        call.messages_counted = True
        work = dist.all_to_all_single(
            incoming, outgoing, arriving, leaving, group=self.group, async_op=True
        )
        return Pending(call, (work,))

    def _ring(self, call: Call, parts: list[Tensor], steps: list[list[Hop]]) -> Iterator[None]:
        """Carry out a ring schedule on this rank's chunks, in place, pausing once while a message
        is out; the call's wire bytes are those of the messages sent."""
        incoming, call.wire_bytes, call.messages_counted = torch.empty_like(parts[0]), 0, True
        for step in steps:
            outgoing = step[self.rank]
            arriving = next(hop for hop in step if hop.receiver == self.rank)
            works = self._swap(parts[outgoing.chunk], outgoing.receiver, incoming, arriving.sender)
            call.wire_bytes += incoming.nbytes
            yield
            for work in works:
                work.wait()
            if arriving.action == "add":
                parts[arriving.chunk].add_(incoming)
            else:
                parts[arriving.chunk].copy_(incoming)

    def _swap(
        self, outgoing: Tensor, to: int, incoming: Tensor, source: int, channel: int = 0
    ) -> tuple[Any, Any]:
        sending = dist.isend(outgoing, self.ranks[to], group=self.group, tag=channel)
        return dist.irecv(incoming, self.ranks[source], group=self.group, tag=channel), sending

    def _equal_parts(self, whole: Tensor) -> tuple[Tensor, ...]:
        if whole.numel() % self.size:
            count, padded = whole.numel(), -(-whole.numel() // self.size) * self.size
            raise ValueError(
                t(
                    f"{count} elements cannot be cut into {self.size} equal parts: pad to"
                    f" {padded}.",
                    f"{count} 个元素无法等分成 {self.size} 份：请补齐到 {padded} 个。",
                )
            )
        return whole.view(-1).chunk(self.size)

    def _open(self, op: str, purpose: str, tensor: Tensor, label: str) -> Call:
        payload = tensor.numel() * tensor.element_size()
        return self.ledger.open(
            op, self.name, purpose, payload, wire_bytes(op, payload, self.size), label
        )
