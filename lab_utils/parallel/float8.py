"""Linear layers whose three products run in eight bits (Micikevicius et al. 2022, "FP8 Formats for
Deep Learning"; scaled anew for every tensor, as Transformer Engine's current scaling).

Weights and inputs are rounded to e4m3, which has more mantissa, gradients to e5m2, which has more
range; sums and results are wider. Masters, norms, attention, head and residual stream stay as under
bf16 autocast. torch's CPU kernel has the numerics, not the speed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
OUT = torch.bfloat16


def to_float8(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """(x times a scale, rounded to `dtype`; the scale's inverse, 0-dim fp32). Nothing saturates."""
    scale = _scale(x, torch.finfo(dtype).max)
    return (x * scale).to(dtype), scale.reciprocal()


def _scale(x: Tensor, limit: float) -> Tensor:
    """The largest power of two that keeps x within `limit`: it moves exponents alone, so that x is
    rounded once. Of what is not finite it makes NaN, which the loss then shows."""
    largest = torch.linalg.vector_norm(x, float("inf"), dtype=torch.float32)
    return (limit / largest.clamp(min=1e-30)).log2_().floor_().exp2_()


def _product(a: Tensor, b: Tensor, inverse_a: Tensor, inverse_b: Tensor) -> Tensor:
    """a (m, k) times bᵀ of b (n, k), both float8, in bf16."""
    return torch._scaled_mm(a, b.t(), scale_a=inverse_a, scale_b=inverse_b, out_dtype=OUT)


class _Float8Product(torch.autograd.Function):
    """y = x Wᵀ, x (…, in) and W (out, in). Saved: x in eight bits, and the weight itself, which is
    rounded again when it is needed (under ZeRO-3 it is gathered again, too)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        rows, inverse = to_float8(x.flatten(0, -2), E4M3)
        ctx.save_for_backward(rows, inverse, weight)
        ctx.dtype = x.dtype
        y = _product(rows, *_turned(to_float8(weight, E4M3), inverse))
        return y.view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, inverse, weight = ctx.saved_tensors
        g, inverse_g = to_float8(gradient.flatten(0, -2), E5M2)
        of_x = _of_input(g, inverse_g, weight).to(ctx.dtype)
        of_weight = _product(g.t().contiguous(), rows.t().contiguous(), inverse_g, inverse)
        return of_x.view(*gradient.shape[:-1], weight.shape[1]), of_weight.to(weight.dtype)


def _turned(weight: tuple[Tensor, Tensor], inverse: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return weight[0], inverse, weight[1]


def _of_input(g: Tensor, inverse_g: Tensor, weight: Tensor) -> Tensor:
    rounded, inverse = to_float8(weight, E4M3)
    return _product(g, rounded.t().contiguous(), inverse_g, inverse)


class Float8Linear(nn.Linear):
    """A linear layer by such products; the bias is added to the result."""

    def forward(self, x: Tensor) -> Tensor:
        y = _Float8Product.apply(x, self.weight)
        return y if self.bias is None else y + self.bias.to(y.dtype)


def float8(blocks: nn.Module) -> None:
    """Turn every linear layer inside into a Float8Linear, in place; names and weights stay."""
    for module in blocks.modules():
        if type(module) is nn.Linear:
            module.__class__ = Float8Linear
