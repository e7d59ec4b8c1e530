"""What a layer of any model does when the tensor-parallel ranks share it.

All of it is two operations (Shoeybi et al. 2019, "Megatron-LM", section 3, where they are f and g):
`Enter` shared work, where the input's gradient is summed on the way back, and `Leave` it, where the
output is summed on the way on. A column-parallel layer enters, a row-parallel one leaves. The layer
keeps its own forward pass: a class of this file is put before its own, as the table in styles.py
says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from ..i18n import t
from ..layout.stages import part_of
from .comm import Axis
from .tensor import Region, in_autocast
from .vocabulary import Leave, VocabParallelEmbedding

if TYPE_CHECKING:
    from .styles import Kind


class Enter(torch.autograd.Function):
    """All ranks read the same on the way in; the gradient on the way back is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, region: Region) -> Tensor:
        ctx.region = region
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # a copy: others may have been handed the same gradient
        total, pending = ctx.region.reduce(gradient.clone(memory_format=torch.contiguous_format))
        pending.wait()
        return total, None


class _Together(torch.autograd.Function):
    """(…, V/N) of each rank → (…, V) on all, which go on alike; each rank's part of the gradient
    is its own."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, axis: Axis, total: int) -> Tensor:
        parts = [part_of(total, axis.size, rank) for rank in range(axis.size)]
        ctx.mine = parts[axis.rank]
        # equal parts for the wire: the first is the largest
        whole = part.new_zeros(axis.size, *part.shape[:-1], parts[0][1])
        whole[axis.rank, ..., : part.shape[-1]] = part
        axis.all_gather(whole.view(-1), purpose="activation").wait()
        return torch.cat([one[..., :n] for one, (_, n) in zip(whole, parts, strict=True)], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient.narrow(-1, *ctx.mine).contiguous(), None, None


class Layer:
    """A layer that takes part. `total`: what it had of the size that is cut. `entered`: an outer
    module has entered for it."""

    region: Region
    kind: Kind
    total: int
    entered: bool


class Column(Layer):
    """Some of the outputs, of the whole input."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if self.entered else Enter.apply(x, self.region))


class Row(Layer):
    """A summand of every output, of some of the inputs; the bias is added once, to the sum."""

    def forward(self, x: Tensor) -> Tensor:
        y = Leave.apply(self.kind.product(self, x), self.region)
        if self.bias is None:
            return y
        return y + in_autocast(self.bias).view(-1, *[1] * (-1 - self.kind.features))


class Head(Column):
    """The output layer: the logits are gathered, so that any loss may read them."""

    def forward(self, x: Tensor) -> Tensor:
        return _Together.apply(super().forward(x), self.region.axis, self.total)


class Vocabulary(Layer, VocabParallelEmbedding):
    """Some of the words: zeros for the others, and the sum over the ranks is right."""


class Channels(Layer):
    """Between column and row, channel by channel: nothing is exchanged."""


class Summed(Layer):
    """Whole, but between column and row: a rank sees a part of its work, so the gradients of its
    weights are summed over the ranks."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        own = {name: p for name, p in self._parameters.items() if p is not None}
        self._parameters.update({name: Enter.apply(p, self.region) for name, p in own.items()})
        try:
            return super().forward(*args, **kwargs)
        finally:
            self._parameters.update(own)


class Entrance(Layer):
    """A module in which several column-parallel layers read the same input: it is entered once,
    for all of them."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.entered:
            return super().forward(*args, **kwargs)
        args, kwargs = tree_map_only(
            Tensor, lambda x: Enter.apply(x, self.region) if x.requires_grad else x, (args, kwargs)
        )
        return super().forward(*args, **kwargs)


class Heads(Layer):
    """Some heads of a torch.nn.MultiheadAttention, whose own forward pass would reject fewer."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        if need_weights or self.bias_k is not None or self.add_zero_attn:
            raise ValueError(
                t(
                    "attention whose heads are shared out gives no attention weights and takes"
                    " neither bias_k nor add_zero_attn: call it with need_weights=False.",
                    "注意力头分给各 rank 之后，不返回注意力权重，也不支持 bias_k 和 add_zero_attn："
                    "调用时请用 need_weights=False。",
                )
            )
        # what is read in several roles is entered once
        inside = {id(x): Enter.apply(x, self.region) for x in (query, key, value)}
        weights = self.in_proj_weight.chunk(3)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = (
            self._by_head(F.linear(inside[id(x)], w, b))
            for x, w, b in zip((query, key, value), weights, biases, strict=True)
        )
        y = F.scaled_dot_product_attention(
            q,
            k,
            v,
            self._added(attn_mask, key_padding_mask, q),
            self.dropout if self.training else 0.0,
            is_causal=is_causal and attn_mask is None and key_padding_mask is None,
        )
        y = y.transpose(-3, -2).flatten(-2)
        y = y if self.batch_first or y.dim() == 2 else y.transpose(0, 1)
        y, bias = Leave.apply(F.linear(y, self.out_proj.weight), self.region), self.out_proj.bias
        return y if bias is None else y + in_autocast(bias), None

    def _by_head(self, x: Tensor) -> Tensor:  # (b, s, h/N) or (s, b, h/N) -> (b, a/N, s, d)
        x = x if self.batch_first or x.dim() == 2 else x.transpose(0, 1)
        return x.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2)

    def _added(self, mask: Tensor | None, padding: Tensor | None, q: Tensor) -> Tensor | None:
        """Both masks as one to be added to this rank's scores; True means: not to be read."""
        if mask is not None and mask.dim() == 3:  # (b a, s, s): of every head
            axis = self.region.axis
            mask = mask.unflatten(0, (-1, self.total)).chunk(axis.size, 1)[axis.rank]
        padding = None if padding is None else padding[..., None, None, :]
        summands = [
            q.new_zeros(m.shape).masked_fill(m, float("-inf")) if m.dtype == torch.bool else m
            for m in (mask, padding)
            if m is not None
        ]
        return sum(summands) if summands else None
