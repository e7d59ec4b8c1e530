"""The norms: one kernel each, or written out of several, as the convention says."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Torch
from .live import Value


def layer_norm(torch: Torch, x: Value, weight: Value, bias: Value | None) -> Value:
    """Saves its input and two statistics a token."""
    h = weight.numel
    rows = x.numel // h
    y = torch.new(x.numel, x.width, x.nbytes + weight.nbytes)
    statistics = torch.convention.norm_statistics_width(x.width)
    mean, spread = torch.new(rows, statistics), torch.new(rows, statistics)
    biased = bias is not None

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value | None, ...]:
        g = gradients[0]
        of_x = torch.new(rows * h, g.width, g.nbytes + saved[0].nbytes)
        return (
            of_x,
            torch.new(h, saved[3].width),
            torch.new(h, saved[3].width) if biased else None,
        )

    torch.record(y, (x, weight, bias), (x, mean, spread, weight), backward)
    return y


def rms_norm(torch: Torch, x: Value, weight: Value) -> Value:
    """One kernel, or written out: pow, mean, rsqrt and two products, in fp32 whatever the width
    of x."""
    if torch.convention.fused_rms_norm:
        return _fused_rms_norm(torch, x, weight)
    wide, h = torch.cast(x, 4), weight.numel
    rows = x.numel // h
    square = _power(torch, wide)
    spread = _rsqrt(torch, _mean(torch, square, rows))
    del square
    scaled = _scale_rows(torch, wide, spread)
    scaled = _scale_columns(torch, scaled, weight, rows)
    return torch.cast(scaled, x.width)


def _fused_rms_norm(torch: Torch, x: Value, weight: Value) -> Value:
    h, rows = weight.numel, x.numel // weight.numel
    y = torch.new(x.numel, x.width, x.nbytes + weight.nbytes)
    spread = torch.new(rows, torch.convention.norm_statistics_width(x.width))

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
        g = gradients[0]
        of_x = torch.new(rows * h, g.width, g.nbytes + saved[0].nbytes)
        return of_x, torch.new(h, saved[2].width)

    torch.record(y, (x, weight), (x, spread, weight), backward)
    return y


def _power(torch: Torch, x: Value) -> Value:
    y = torch.new(x.numel, x.width, x.nbytes)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
        power = torch.elementwise(saved[0])
        doubled = torch.elementwise(power)
        return (torch.new(power.numel, power.width, gradients[0].nbytes + doubled.nbytes),)

    torch.record(y, (x,), (x,), backward)
    return y


def _mean(torch: Torch, x: Value, rows: int) -> Value:
    y, numel = torch.new(rows, x.width, x.nbytes), x.numel
    torch.record(y, (x,), (), lambda saved, g: (torch.new(numel, g[0].width, g[0].nbytes),))
    return y


def _rsqrt(torch: Torch, x: Value) -> Value:
    y = torch.elementwise(x)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
        cube, halved = torch.elementwise(saved[0]), torch.elementwise(gradients[0])
        return (torch.new(cube.numel, cube.width, cube.nbytes + halved.nbytes),)

    torch.record(y, (x,), (y,), backward)
    return y


def _scale_rows(torch: Torch, x: Value, factors: Value) -> Value:
    y, rows = torch.new(x.numel, x.width, x.nbytes + factors.nbytes), factors.numel

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
        g = gradients[0]
        products = torch.new(g.numel, g.width, g.nbytes + saved[0].nbytes)
        of_x = torch.new(g.numel, g.width, g.nbytes + saved[1].nbytes)
        return of_x, torch.new(rows, g.width, products.nbytes)

    torch.record(y, (x, factors), (x, factors), backward)
    return y


def _scale_columns(torch: Torch, x: Value, weight: Value, rows: int) -> Value:
    y = torch.new(x.numel, x.width, x.nbytes + weight.nbytes)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
        g, scale = gradients[0], saved[1]
        products = torch.new(g.numel, g.width, g.nbytes + saved[0].nbytes)
        of_x = torch.new(g.numel, g.width, g.nbytes + scale.nbytes)
        of_weight = torch.new(scale.numel, g.width, products.nbytes)
        return of_x, torch.cast(of_weight, scale.width)

    torch.record(y, (x, weight), (x, weight), backward)
    return y
