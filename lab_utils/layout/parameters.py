"""Names and shapes of a GPT's parameters, in the order of the forward pass; model.py builds exactly
these."""

from __future__ import annotations

from math import prod

from ..config import ModelConfig


def parameter_shapes(model: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Parameter name → shape. A tied head has no weight of its own. Linear weights are (out, in),
    as torch keeps them."""
    h, heads_width, kv_width = (
        model.hidden,
        model.heads * model.head_dim,
        model.kv_heads * model.head_dim,
    )
    shapes: dict[str, tuple[int, ...]] = {"token_embedding.weight": (model.vocab, h)}
    if model.positions == "learned":
        shapes["position_embedding.weight"] = (model.seq, h)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = (h,)
        if model.norm == "layernorm" and model.bias:
            shapes[f"{name}.bias"] = (h,)

    def linear(name: str, out: int, inner: int) -> None:
        shapes[f"{name}.weight"] = (out, inner)
        if model.bias:
            shapes[f"{name}.bias"] = (out,)

    for i in range(model.layers):
        block = f"blocks.{i}"
        norm(f"{block}.attention_norm")
        linear(f"{block}.attention.query", heads_width, h)
        linear(f"{block}.attention.key", kv_width, h)
        linear(f"{block}.attention.value", kv_width, h)
        linear(f"{block}.attention.output", h, heads_width)
        norm(f"{block}.mlp_norm")
        if model.activation == "swiglu":
            linear(f"{block}.mlp.gate", model.ffn, h)
        linear(f"{block}.mlp.up", model.ffn, h)
        linear(f"{block}.mlp.down", h, model.ffn)
    norm("final_norm")
    if not model.tied:
        shapes["head.weight"] = (model.vocab, h)
    return shapes


def parameter_count(model: ModelConfig) -> int:
    """Ψ: parameters in all, a tied weight once."""
    return sum(prod(shape) for shape in parameter_shapes(model).values())
