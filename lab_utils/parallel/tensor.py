"""Tensor parallelism: every matrix product of a layer is shared out over the tp ranks.

A layer is entered once and left once. Column-parallel products (query, key, value; gate, up) read
the whole input and give each rank some of the output features; row-parallel ones (output, down)
read those and give each rank a summand of the whole output (Shoeybi et al. 2019, "Megatron-LM",
section 3). So the input's gradient, too, is a sum over ranks: one all-reduce forward where a region
is left, one backward where it was entered.

With sequence parallelism each rank holds 1/N of the tokens outside the regions: entering is an
all-gather, leaving a reduce-scatter, and the backward pass the mirror image. Only the shard is
saved; the backward pass gathers it again (Korthikanti et al. 2022, section 4.2.2). Outside the
regions all work is token by token, so it does not matter *which* tokens a rank holds: it takes an
equal run of the micro-batch's b·s tokens as they lie in memory.

What here knows our GPT by name is the last function; for any other model there is
`tensor_parallel(module, axis, plan)` in tensor_parallel.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import ModelConfig
from ..layout.placement import Placement
from ..layout.tensor_styles import TENSOR_STYLES
from .comm import Axis, Pending
from .vocabulary import VocabParallelEmbedding, VocabParallelLoss
from .weight_grad_store import WeightGradStore, weight_gradient


class Region:
    """How the ranks of `axis` enter and leave shared work. `weight_grads`: puts gradients of
    weights off (zero-bubble)."""

    def __init__(
        self, axis: Axis, sequence_parallel: bool, weight_grads: WeightGradStore | None = None
    ) -> None:
        self.axis, self.scattered, self.weight_grads = (
            axis,
            sequence_parallel and axis.size > 1,
            weight_grads,
        )

    def gather(self, x: Tensor) -> tuple[Tensor, Pending]:
        """(b, s/N, …) → (b, s, …), complete when the Pending has been waited for. Without sequence
        parallelism: x itself."""
        if not self.scattered:
            return x, Pending()
        whole = x.new_empty(self.axis.size, *x.shape)
        whole[self.axis.rank] = x
        return whole.view(x.shape[0], -1, *x.shape[2:]), self.axis.all_gather(
            whole.view(-1), purpose="activation"
        )

    def reduce(self, summand: Tensor) -> tuple[Tensor, Pending]:
        """The sum over ranks: of the same shape, or with sequence parallelism this rank's (b, s/N,
        …) of it."""
        if not self.scattered:
            summand = summand.contiguous()
            return summand, self.axis.all_reduce(summand, purpose="activation")
        shard, pending = self.axis.reduce_scatter(summand.contiguous(), purpose="activation")
        return shard.view(summand.shape[0], -1, *summand.shape[2:]), pending

    def own(self, shard: Tensor) -> Tensor:
        """A result of `reduce`, waited for, without the storage of the whole behind it."""
        return shard.clone() if self.scattered else shard

    def weight(self, parameter: nn.Parameter) -> Tensor:
        """A weight as autograd is to see it: not at all if its gradient is put off, or hooks on it
        would fire too early."""
        return in_autocast(parameter if self.weight_grads is None else parameter.detach())

    def gradient_of(self, weight: Tensor, gradient: Tensor, x: Tensor) -> Tensor | None:
        """The weight's gradient now, or None if it is put off."""
        if self.weight_grads is None:
            return weight_gradient(gradient, x)
        self.weight_grads.put(weight, gradient, x)
        return None


def in_autocast(tensor: Tensor | None) -> Tensor | None:
    """The tensor as autocast would hand it to a matrix product: custom autograd functions are not
    cast by themselves."""
    kind = "cpu" if tensor is None else tensor.device.type
    return (
        tensor.to(torch.get_autocast_dtype(kind))
        if tensor is not None and torch.is_autocast_enabled(kind)
        else tensor
    )


class _Column(torch.autograd.Function):
    """(x, region, weights, biases) → one output per weight."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        region: Region,
        parameters: tuple[nn.Parameter, ...],
        *weights_and_biases: Tensor | None,
    ) -> tuple[Tensor, ...]:
        weights, biases = (
            weights_and_biases[: len(parameters)],
            weights_and_biases[len(parameters) :],
        )
        whole, pending = region.gather(x)
        pending.wait()
        ctx.region, ctx.parameters, ctx.biased = region, parameters, [b is not None for b in biases]
        ctx.save_for_backward(x, *weights)
        return tuple(F.linear(whole, w, b) for w, b in zip(weights, biases, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        x, *weights = ctx.saved_tensors
        whole, gathering = ctx.region.gather(x)
        summand = gradients[0] @ weights[0]
        for gradient, weight in zip(gradients[1:], weights[1:], strict=True):
            summand += gradient @ weight
        gathering.wait()
        # under way while the weights' gradients are computed
        of_x, pending = ctx.region.reduce(summand)
        of_weights = [
            ctx.region.gradient_of(p, g, whole)
            for p, g in zip(ctx.parameters, gradients, strict=True)
        ]
        of_biases = [
            g.flatten(0, -2).sum(0) if biased else None
            for g, biased in zip(gradients, ctx.biased, strict=True)
        ]
        pending.wait()
        return ctx.region.own(of_x), None, None, *of_weights, *of_biases


class ColumnParallel:
    """Stands in for `model.apply_each`: linear layers that read the same input, each rank with some
    of their outputs."""

    def __init__(self, region: Region) -> None:
        self.region = region

    def __call__(self, x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
        parameters = tuple(layer.weight for layer in layers)
        weights, biases = (
            [self.region.weight(p) for p in parameters],
            [in_autocast(layer.bias) for layer in layers],
        )
        return _Column.apply(in_autocast(x), self.region, parameters, *weights, *biases)


class _Row(torch.autograd.Function):
    """(x, weight, layer) → the sum over ranks of x Wᵀ."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, layer: RowParallel) -> Tensor:
        region, ctx.region, ctx.layer = layer.region, layer.region, layer
        ctx.save_for_backward(x, weight)
        y, pending = region.reduce(F.linear(x, weight))
        pending.wait()
        return region.own(y)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        x, weight = ctx.saved_tensors
        gradient, pending = ctx.region.gather(gradient.contiguous())
        pending.wait()
        return gradient @ weight, ctx.region.gradient_of(ctx.layer.weight, gradient, x), None


class RowParallel(nn.Linear):
    """A linear layer whose input features are shared out; the bias is added once, after the sum."""

    region: Region

    def forward(self, x: Tensor) -> Tensor:
        y = _Row.apply(in_autocast(x), self.region.weight(self.weight), self)
        return y if self.bias is None else y + in_autocast(self.bias)


class ColumnHead(nn.Linear):
    """The output layer: each rank gives the logits of its part of the vocabulary, and nobody
    gathers them."""

    region: Region

    def forward(self, x: Tensor) -> Tensor:
        return ColumnParallel(self.region)(x, self)[0]


# the class that a layer of a style gets; those of column style are entered together, by `project`
CLASSES = {"row": RowParallel, "head": ColumnHead, "vocabulary": VocabParallelEmbedding}


def tensor_parallel_gpt(
    model: nn.Module, config: ModelConfig, region: Region, placements: Mapping[str, Placement]
) -> None:
    """Give `model` (on the meta device, whole or a pipeline stage) its part of every weight, and
    the communication.

    On an axis of one rank, with nothing to put off: the identity.
    """
    axis = region.axis
    if axis.size == 1 and region.weight_grads is None:
        return
    _cut_parameters(model, placements)
    column = ColumnParallel(region)
    for block in model.blocks.children():
        block.attention.project = block.mlp.project = column
    for name, layer in list(model.named_modules()):
        found = TENSOR_STYLES.get(name.split(".")[-1])
        # a rank alone has all words; only products can be put off
        if found and found.style in CLASSES and (axis.size > 1 or found.style != "vocabulary"):
            layer.__class__, layer.region = CLASSES[found.style], region
    if axis.size == 1:
        return
    if hasattr(model, "head"):
        place = placements.get("head.weight") or placements["token_embedding.weight"]
        model.loss = VocabParallelLoss(axis, place.start)
    if hasattr(model, "token_embedding"):
        model.token_embedding.start = placements["token_embedding.weight"].start
    if region.scattered and hasattr(model, "position_embedding"):
        model.position_embedding.__class__ = PositionsOfShard
        model.position_embedding.axis = axis


class PositionsOfShard(nn.Embedding):
    """Position embeddings of the tokens that this rank holds: (b, s) positions → (b, s/N, h)."""

    axis: Axis

    def forward(self, positions: Tensor) -> Tensor:
        mine = positions.flatten().chunk(self.axis.size)[self.axis.rank]
        return super().forward(mine.view(positions.shape[0], -1))


def _cut_parameters(model: nn.Module, placements: Mapping[str, Placement]) -> None:
    """Replace every parameter by one of this rank's shape, on the meta device; what was shared
    stays shared."""
    smaller = {
        id(p): nn.Parameter(torch.empty(placements[name].local_shape, device="meta"))
        for name, p in model.named_parameters()
    }
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            setattr(module, name, smaller[id(parameter)])
