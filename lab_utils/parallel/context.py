"""Context parallelism: every rank holds a part of each sequence, and of all layers attention alone
needs the others' tokens.

*Ring* (Liu, Zaharia and Abbeel 2023, "Ring Attention with Blockwise Transformers"): keys and values
go round; each rank attends to one share of them at a time, and puts the partial results together by
their log-sum-exp (Milakov and Gimelshein 2018), in fp32, because bf16 would lose digits with every
step. *All-to-all* (Jacobs et al. 2023, "DeepSpeed Ulysses"): heads are swapped for tokens, so that
a rank has all tokens of some heads, and swapped back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..config import ContextParallel
from ..i18n import t
from ..layout.context import Meeting, meetings, runs_of_rank
from ..model import AttentionCore
from .comm import Axis, Pending

# channels, so that keys are never mistaken for gradients
_KEYS, _GRADIENTS = 0, 1


def context_parallel(model: nn.Module, axis: Axis, kind: ContextParallel) -> None:
    """Let a GPT (whole or a pipeline stage, of any device) work on this rank's share of every
    sequence. On an axis of one rank: the identity."""
    if axis.size == 1:
        return
    model.positions = partial(_positions, axis, kind)
    for block in model.blocks.children():
        attention = block.attention
        attention.positions = model.positions
        attention.core = (
            RingAttention(attention.core, axis)
            if kind == "ring"
            else SwapHeadsForTokens(attention.core, axis)
        )


def _positions(axis: Axis, kind: ContextParallel, count: int, **options: Any) -> Tensor:
    """As torch.arange(count, …), but the positions in the whole sequence."""
    found, filled = torch.arange(count, **options), 0
    for run in runs_of_rank(count * axis.size, axis.size, axis.rank, kind):
        found[filled : filled + len(run)] += run.start - filled
        filled += len(run)
    return found


# -- keys and values go round ----------------------------------------------------------------------


class RingAttention(AttentionCore):
    """Causal attention of this rank's queries to the tokens of all ranks; inputs and output as
    AttentionCore's, with s the rank's own tokens. Fused only."""

    def __init__(self, core: AttentionCore, axis: Axis) -> None:
        nn.Module.__init__(self)
        self.fused, self.group, self.axis = core.fused, core.group, axis

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return _Ring.apply(q, k, v, self.axis)


class _Ring(torch.autograd.Function):
    """(b, a, s, d) queries, (b, g, s, d) keys and values. Saved: these, the output, and one fp32
    log-sum-exp a row; the backward pass sends the keys round again."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, axis: Axis) -> Tensor:
        out = lse = None
        for meeting, keys, values in _go_round(axis, k, v):
            part = _queries(meeting, q)
            if out is None:
                out, lse = _attend(part, keys, values, meeting.causal)
                out = out.float()
            else:
                _merge(
                    _queries(meeting, out),
                    _queries(meeting, lse),
                    *_attend(part, keys, values, meeting.causal),
                )
        out = out.to(q.dtype)
        ctx.axis = axis
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        of_q, of_keys = None, _TravellingGradients(ctx.axis, k)
        for meeting, keys, values in _go_round(ctx.axis, k, v):
            mine = (_queries(meeting, x) for x in (gradient, q, out, lse))
            dq, dk, dv = _attend_backward(*mine, keys, values, meeting.causal)
            if of_q is None:
                of_q = dq.float()
            else:
                _queries(meeting, of_q).add_(dq)
            del dq
            of_keys.add(dk, dv)
            del dk, dv
        of_k, of_v = of_keys.home()
        return of_q.to(q.dtype), of_k.to(k.dtype), of_v.to(v.dtype), None


def _queries(meeting: Meeting, x: Tensor) -> Tensor:
    """Of (b, a, s, …): the rows that take part."""
    return x if meeting.queries == "all" else x[:, :, x.shape[2] // 2 :]


def _go_round(axis: Axis, k: Tensor, v: Tensor) -> Iterator[tuple[Meeting, Tensor, Tensor]]:
    """Every rank's keys and values that we meet, ours first; the next are on their way meanwhile.

    (b, g, s, d) each, views of one message; two buffers take turns.
    """
    here = torch.stack((k.transpose(1, 2), v.transpose(1, 2)))  # (2, b, s, g, d)
    there, last = torch.empty_like(here), axis.size - 1
    for step, meeting in enumerate(meetings(axis.size, axis.rank)):
        arriving = (
            axis.pass_on(here, there, purpose="activation", label="keys and values", channel=_KEYS)
            if step < last
            else Pending()
        )
        met = here if meeting.keys == "all" else here[:, :, : here.shape[2] // 2]
        yield meeting, met[0].transpose(1, 2), met[1].transpose(1, 2)
        arriving.wait()
        here, there = there, here


class _TravellingGradients:
    """The gradients of a share of keys and values, fp32: they travel one rank behind the share,
    each rank adds its own, and the last sends them home. What a rank owes its own share stays
    here."""

    def __init__(self, axis: Axis, k: Tensor) -> None:
        b, g, s, d = k.shape
        self.axis, self.shape, self.device = axis, (2, b, s, g, d), k.device
        # ours; those that are here, with our part added; room for those that come
        self.own = self.here = self.there = None
        self.arriving = Pending()

    def add(self, dk: Tensor, dv: Tensor) -> None:
        """Of the keys and values just met, (b, g, s or s/2, d) each; then send them on."""
        if self.own is None:
            self.own = torch.stack((dk.transpose(1, 2), dv.transpose(1, 2))).float()
            return
        if self.here is None:
            self.here, self.there = (
                torch.zeros(self.shape, dtype=torch.float32, device=self.device) for _ in range(2)
            )
        else:
            self.arriving.wait()
            self.here, self.there = self.there, self.here
        for total, part in zip(self.here, (dk, dv), strict=True):
            total[:, : part.shape[2]].add_(part.transpose(1, 2))
        self.arriving = self.axis.pass_on(
            self.here,
            self.there,
            purpose="activation",
            label="gradients of keys and values",
            channel=_GRADIENTS,
        )

    def home(self) -> tuple[Tensor, Tensor]:
        """All that the ranks owe our own keys and values, (b, g, s, d) each."""
        self.arriving.wait()
        self.own += self.there
        return self.own[0].transpose(1, 2), self.own[1].transpose(1, 2)


def _merge(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> None:
    """Put two partial results together, in place: each weighs as much as the sum of exponentials
    that it stands for."""
    weight = (other_lse - lse).sigmoid_()
    lse.copy_(torch.logaddexp(lse, other_lse))
    out.lerp_(other.float(), weight[..., None])


def _attend(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Fused attention, the CPU's: its output (b, a, s, d), and each row's log-sum-exp, (b, a, s)
    fp32."""
    if q.device.type != "cpu":
        raise NotImplementedError(
            t(
                "--cp-kind ring knows the CPU's attention kernel alone: use --cp-kind all-to-all on"
                " GPUs.",
                "--cp-kind ring 目前只支持 CPU 的注意力算子：在 GPU 上请用 --cp-kind all-to-all。",
            )
        )
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)


def _attend_backward(
    gradient: Tensor, q: Tensor, out: Tensor, lse: Tensor, k: Tensor, v: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v. `out` and `lse` are those of *all* keys: they say how much of each
    row's weight the ones that are met here have."""
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, k, v, out, lse, 0.0, causal
    )


# -- heads for tokens ------------------------------------------------------------------------------


class SwapHeadsForTokens(nn.Module):
    """(b, a, s/N, d) → a `core` over (b, a/N, s, d) → (b, a, s/N, d)."""

    def __init__(self, core: AttentionCore, axis: Axis) -> None:
        super().__init__()
        self.core, self.axis = core, axis

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (_Swap.apply(x, self.axis, _all_tokens, _all_heads) for x in (q, k, v))
        return _Swap.apply(self.core(q, k, v), self.axis, _all_heads, _all_tokens)


class _Swap(torch.autograd.Function):
    """One exchange forward, its mirror image backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: Axis, there: Callable, back: Callable) -> Tensor:
        ctx.axis, ctx.back = axis, back
        return there(x, axis)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.back(gradient, ctx.axis), None, None, None


def _all_tokens(x: Tensor, axis: Axis) -> Tensor:
    """(b, a, s/N, d) → (b, a/N, s, d): rank n gets the n-th run of heads."""
    arrived = _exchanged(x.transpose(1, 2).unflatten(2, (axis.size, -1)).movedim(2, 0), axis)
    return arrived.movedim(0, 1).flatten(1, 2).transpose(1, 2)


def _all_heads(x: Tensor, axis: Axis) -> Tensor:
    """(b, a/N, s, d) → (b, a, s/N, d): rank n gets the n-th run of tokens."""
    arrived = _exchanged(x.transpose(1, 2).unflatten(1, (axis.size, -1)).movedim(1, 0), axis)
    return arrived.movedim(0, 2).flatten(2, 3).transpose(1, 2)


def _exchanged(parts: Tensor, axis: Axis) -> Tensor:
    """(N, …): the n-th part goes to rank n, and comes from it."""
    outgoing = parts.clone(memory_format=torch.contiguous_format)
    incoming = torch.empty_like(outgoing)
    axis.all_to_all(outgoing, incoming, purpose="activation", label="heads for tokens").wait()
    return incoming
