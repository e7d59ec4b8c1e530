"""parallel/float8.py over values without numbers: what a linear layer in eight bits allocates,
saves and moves."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Torch
from .live import Value

OUT = 2  # bytes of a product's element, bf16


def float8_linear(
    torch: Torch, x: Value, weight: Value, bias: Value | None, out: int, inner: int
) -> Value:
    """(…, inner) → (…, out), as Float8Linear.forward."""
    rows, flops = x.numel // inner, 2 * (x.numel // inner) * out * inner
    wide, needed = x.width, weight.node is not None
    rounded, inverse = to_float8(torch, x)
    y = _product(torch, rounded, *to_float8(torch, weight), rows * out, flops)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value | None, ...]:
        g = gradients[0]
        if g.layout:  # k's gradient lies transposed where the head size runs fastest
            g = torch.copied(g)
        small, inverse = to_float8(torch, g)
        del g
        of_x = _widened(torch, _of_input(torch, small, saved[2], rows * inner, flops), wide)
        turned = torch.new(small.numel, 1, small.nbytes), torch.new(rows * inner, 1, rows * inner)
        product = _product(torch, *turned, inverse, out * inner, flops)
        del turned
        return of_x, _widened(torch, product, saved[2].width) if needed else None

    torch.record(y, (x, weight), (rounded, inverse, weight), backward)
    return y if bias is None else torch.add_row(y, torch.cast(bias, OUT))


def to_float8(torch: Torch, x: Value) -> tuple[Value, Value]:
    """(x in eight bits, the inverse of its scale)."""
    scale = torch.new(1, 4, x.nbytes)
    scaled = torch.new(x.numel, x.width, x.nbytes)
    rounded = torch.new(x.numel, 1, scaled.nbytes)
    del scaled
    return rounded, torch.new(1, 4, scale.nbytes)


def _of_input(torch: Torch, g: Value, weight: Value, numel: int, flops: int) -> Value:
    rounded, inverse = to_float8(torch, weight)
    return _product(torch, g, torch.new(rounded.numel, 1, rounded.nbytes), inverse, numel, flops)


def _product(torch: Torch, a: Value, b: Value, inverse: Value, numel: int, flops: int) -> Value:
    return torch.new(numel, OUT, a.nbytes + b.nbytes + inverse.nbytes, flops)


def _widened(torch: Torch, x: Value, width: int) -> Value:
    return x if x.width == width else torch.new(x.numel, width, x.nbytes)
