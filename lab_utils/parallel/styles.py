"""The styles of tensor parallelism by name: one table says what is cut and which class the layer
gets, a second one how each kind of layer lies in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from .styled_layers import Channels, Column, Entrance, Head, Heads, Layer, Row, Summed, Vocabulary


@dataclass(frozen=True)
class Kind:
    """How a class of layers lies in memory: which dim of its weight counts the outputs and which
    the inputs, what it calls their numbers, which dim of its input holds the features, and its
    product without the bias."""

    outputs: int
    inputs: int
    sizes: tuple[str, str]
    features: int = -1
    product: Callable[[Any, Tensor], Tensor] | None = None


def _convolution(dims: int) -> Kind:
    return Kind(
        0,
        1,
        ("out_channels", "in_channels"),
        -1 - dims,
        lambda layer, x: layer._conv_forward(x, layer.weight, None),
    )


KINDS = {
    "Linear": Kind(
        0, 1, ("out_features", "in_features"), -1, lambda layer, x: F.linear(x, layer.weight)
    ),
    # GPT-2's, of transformers: a linear layer whose weight lies the other way round
    "Conv1D": Kind(1, 0, ("nf", "nx"), -1, lambda layer, x: x @ layer.weight),
    "Conv1d": _convolution(1),
    "Conv2d": _convolution(2),
    "Conv3d": _convolution(3),
    "Embedding": Kind(0, 1, ("num_embeddings", "embedding_dim")),
    "GroupNorm": Kind(0, 0, ("num_channels", "num_channels")),
    "MultiheadAttention": Kind(0, 1, ("num_heads", "num_heads")),
}
PRODUCTS = tuple(name for name, kind in KINDS.items() if kind.product)


@dataclass(frozen=True)
class Style:
    """What becomes of a layer: its class, which of its two sizes is cut, the parameters that this
    cuts, each along its outputs or its inputs, and the kinds of layer that it suits."""

    layer: type[Layer]
    size: str | None
    parameters: dict[str, str]
    kinds: tuple[str, ...]
    uneven: bool = False  # a size that the degree does not divide will do
    groups: int = 1


_OUT = {"weight": "outputs", "bias": "outputs"}
_QKV = {"in_proj_weight": "outputs", "in_proj_bias": "outputs", "out_proj.weight": "inputs"}
STYLES = {
    "column": Style(Column, "outputs", _OUT, PRODUCTS),
    "row": Style(Row, "inputs", {"weight": "inputs"}, PRODUCTS),
    "head": Style(Head, "outputs", _OUT, ("Linear",), uneven=True),
    "vocabulary": Style(Vocabulary, "outputs", {"weight": "outputs"}, ("Embedding",), uneven=True),
    "heads": Style(Heads, "outputs", _QKV, ("MultiheadAttention",), groups=3),
    "channels": Style(Channels, "outputs", _OUT, ("GroupNorm",)),
    "summed": Style(Summed, None, {}, ()),
    "enter": Style(Entrance, None, {}, ()),
}


def kind_of(module: nn.Module) -> tuple[str, Kind] | None:
    """The kind of layer that a module is, by the names of its classes; None: of none."""
    names = (c.__name__ for c in type(module).__mro__)
    return next(((name, KINDS[name]) for name in names if name in KINDS), None)
