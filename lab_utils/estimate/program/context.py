"""Attention where every rank holds a part of each sequence: parallel/context.py over values without
numbers, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...layout.context import Meeting, meetings
from .heads import Heads
from .live import Storage, Value
from .size import Size

if TYPE_CHECKING:
    from .model import Program


# -- keys and values go round ----------------------------------------------------------------------


def ring_attention(
    program: Program, q: Value, k: Value, v: Value, heads: Heads, groups: Heads
) -> Value:
    """RingAttention.forward, with the rank's own tokens."""
    ring = _Ring(program, heads, groups)
    out, lse = ring.forward(q, k, v)
    program.torch.record(out, (q, k, v), (q, k, v, out, lse), ring.backward)
    return out


class _Ring:
    """Both passes over tensors of these sizes. A half is counted in bytes: a size need not be
    even where its bytes are."""

    def __init__(self, program: Program, heads: Heads, groups: Heads) -> None:
        self.program, self.torch = program, program.torch
        self.queries, self.keys = heads.numel, groups.numel
        self.rows = heads.b * heads.a * heads.s
        self.flops = 2 * heads.numel * heads.s  # of one product of all queries with all keys
        self.own, *self.others = meetings(program.config.parallel.cp, program.cp_rank)

    # -- forward -----------------------------------------------------------------------------------

    def forward(self, q: Value, k: Value, v: Value) -> tuple[Value, Value]:
        torch, width = self.torch, q.width
        here, there = self._packed(width)
        first, lse = self._attend(self.own, width)
        out = self._in_fp32(first, width)
        del first
        for meeting in self.others:
            self.program.send("send", "cp", here.nbytes)
            self._merge(lse, meeting, width)
        del there  # what was met last is still looked at
        out = out if width == 4 else torch.new(self.queries, width, out.nbytes)
        result = Value(out.storage, self.queries, width, layout=q.layout)
        return result, Value(lse.storage, self.rows, 4)

    def _packed(self, width: int) -> tuple[Value, Value]:
        """Keys and values as one message, and room for the next."""
        here = self.torch.new(2 * self.keys, width, 2 * self.keys * width)
        return here, self.torch.new(2 * self.keys, width)

    def _part(self, meeting: Meeting, nbytes: Size | int) -> Size | int:
        """Of what has one entry for each of our queries."""
        return nbytes if meeting.queries == "all" else nbytes // 2

    def _met(self, meeting: Meeting, nbytes: Size | int) -> Size | int:
        """Of what has one entry for each of their keys."""
        return nbytes if meeting.keys == "all" else nbytes // 2

    def _bytes(self, nbytes: Size | int) -> Value:
        return Value(Storage(self.torch, nbytes), nbytes, 1)

    def _in_fp32(self, x: Value, width: int) -> Value:
        """x itself if it is."""
        return x if width == 4 else self._bytes(2 * x.nbytes)

    def _work(self, meeting: Meeting, products: int) -> Size | int:
        """Half of the queries, or of the keys, take part in every meeting but our own."""
        return products * self.flops // (1 if meeting.causal else 2)

    def _attend(self, meeting: Meeting, width: int) -> tuple[Value, Value]:
        y = self._bytes(self._part(meeting, self.queries * width))
        lse = self._bytes(self._part(meeting, self.rows * 4))
        read = y.nbytes + 2 * self._met(meeting, self.keys * width)
        self.torch.kernel(read, y.nbytes + lse.nbytes, self._work(meeting, 2))
        return y, lse

    def _merge(self, lse: Value, meeting: Meeting, width: int) -> None:
        other, other_lse = self._attend(meeting, width)
        weight = self._bytes(other_lse.nbytes)
        self._bytes(lse.nbytes if meeting.queries == "all" else other_lse.nbytes)
        wide = self._in_fp32(other, width)
        self.torch.kernel(2 * wide.nbytes + weight.nbytes, wide.nbytes)

    # -- backward ----------------------------------------------------------------------------------

    def backward(self, saved: list[Value], gradients: list[Value]) -> tuple[Value, ...]:
        torch, q = self.torch, saved[0]
        width = q.width
        here, there = self._packed(width)
        of_q, own = self._first_gradients(width)
        home: tuple[Value, ...] = ()
        for meeting in self.others:
            self.program.send("send", "cp", here.nbytes)
            of_keys = self._attend_backward(meeting, width)[1:]
            if not home:
                home = tuple(self._bytes(2 * self.keys * 4) for _ in range(2))
            torch.kernel(2 * of_keys[0].nbytes + 2 * home[0].nbytes, home[0].nbytes)
            self.program.send("send", "cp", home[0].nbytes)
            del of_keys
        del there
        torch.kernel(2 * own.nbytes, own.nbytes)
        if width == 4:
            of_k, of_v = (Value(own.storage, self.keys, 4) for _ in range(2))
            mine = Value(of_q.storage, self.queries, 4)
        else:
            mine = torch.new(self.queries, width, of_q.nbytes)
            of_k, of_v = (torch.new(self.keys, width, 4 * self.keys) for _ in range(2))
        mine.layout, of_k.layout, of_v.layout = q.layout, "bsad", "bsad"
        return mine, of_k, of_v

    def _first_gradients(self, width: int) -> tuple[Value, Value]:
        """Of our own keys: the gradients of all queries, and what stays here of keys and values,
        in fp32."""
        of_q, of_k, of_v = self._attend_backward(self.own, width)
        wide = self._in_fp32(of_q, width)
        del of_q
        packed = self._bytes(of_k.nbytes + of_v.nbytes)
        own = self._in_fp32(packed, width)
        return wide, own

    def _attend_backward(self, meeting: Meeting, width: int) -> tuple[Value, Value, Value]:
        of_q = self._bytes(self._part(meeting, self.queries * width))
        of_k, of_v = (self._bytes(self._met(meeting, self.keys * width)) for _ in range(2))
        written = of_q.nbytes + of_k.nbytes + of_v.nbytes
        self.torch.kernel(2 * written, written, self._work(meeting, 5))
        return of_q, of_k, of_v


# -- heads for tokens ------------------------------------------------------------------------------


def swapped(program: Program, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
    """SwapHeadsForTokens.forward: the kernel sees all tokens of some heads."""
    ranks = program.config.parallel.cp
    inside = [Heads(h.b, h.a // ranks, h.s * ranks, h.d) for h in (heads, groups)]
    q, k, v = (
        _swap(program, x, h, _all_tokens, _all_heads)
        for x, h in ((q, heads), (k, groups), (v, groups))
    )
    return _swap(
        program, program.selective(program._core, q, k, v, *inside), heads, _all_heads, _all_tokens
    )


def _swap(program: Program, x: Value, heads: Heads, there, back) -> Value:  # noqa: ANN001
    y = there(program, x, heads)
    program.torch.record(y, (x,), (), lambda saved, g: (back(program, g[0], heads),))
    return y


def _all_tokens(program: Program, x: Value, heads: Heads) -> Value:
    arrived = _exchanged(program, x)
    # sequences of one rank's tokens follow one another; of several sequences they must be copied
    return _laid_out(program, arrived, copied=heads.b != 1)


def _all_heads(program: Program, x: Value, heads: Heads) -> Value:
    return _laid_out(program, _exchanged(program, x), copied=True)


def _laid_out(program: Program, arrived: Value, copied: bool) -> Value:
    if copied:
        arrived = program.torch.new(arrived.numel, arrived.width, arrived.nbytes)
    arrived.layout = "bsad"
    return arrived


def _exchanged(program: Program, x: Value) -> Value:
    torch = program.torch
    outgoing = torch.new(x.numel, x.width, x.nbytes)
    incoming = torch.new(x.numel, x.width)
    program.send("all_to_all", "cp", outgoing.nbytes)
    return incoming
