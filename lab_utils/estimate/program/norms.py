"""The norms: one kernel each, or written out of several, as the convention says."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Kernels
from .live import Value


class Norms(Kernels):
    """A machine with torch's norms."""

    def layer_norm(self, x: Value, weight: Value, bias: Value | None) -> Value:
        """Saves its input and two statistics a token."""
        h = weight.numel
        rows = x.numel // h
        y = self.new(x.numel, x.width, x.nbytes + weight.nbytes)
        statistics = self.convention.norm_statistics_width(x.width)
        mean, spread = self.new(rows, statistics), self.new(rows, statistics)
        biased = bias is not None

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value | None, ...]:
            g = gradients[0]
            of_x = self.new(rows * h, g.width, g.nbytes + saved[0].nbytes)
            return (
                of_x,
                self.new(h, saved[3].width),
                self.new(h, saved[3].width) if biased else None,
            )

        self.record(y, (x, weight, bias), (x, mean, spread, weight), backward)
        return y

    def rms_norm(self, x: Value, weight: Value) -> Value:
        """One kernel, or written out: pow, mean, rsqrt and two products, in fp32 whatever the width
        of x."""
        if self.convention.fused_rms_norm:
            return self._fused_rms_norm(x, weight)
        wide, h = self.cast(x, 4), weight.numel
        rows = x.numel // h
        square = self._power(wide)
        spread = self._rsqrt(self._mean(square, rows))
        del square
        scaled = self._scale_rows(wide, spread)
        scaled = self._scale_columns(scaled, weight, rows)
        return self.cast(scaled, x.width)

    def _fused_rms_norm(self, x: Value, weight: Value) -> Value:
        h, rows = weight.numel, x.numel // weight.numel
        y = self.new(x.numel, x.width, x.nbytes + weight.nbytes)
        spread = self.new(rows, self.convention.norm_statistics_width(x.width))

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            of_x = self.new(rows * h, g.width, g.nbytes + saved[0].nbytes)
            return of_x, self.new(h, saved[2].width)

        self.record(y, (x, weight), (x, spread, weight), backward)
        return y

    def _power(self, x: Value) -> Value:
        y = self.new(x.numel, x.width, x.nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            power = self._small(saved[0])
            doubled = self._small(power)
            return (self.new(power.numel, power.width, gradients[0].nbytes + doubled.nbytes),)

        self.record(y, (x,), (x,), backward)
        return y

    def _mean(self, x: Value, rows: int) -> Value:
        y, numel = self.new(rows, x.width, x.nbytes), x.numel
        self.record(y, (x,), (), lambda saved, g: (self.new(numel, g[0].width, g[0].nbytes),))
        return y

    def _rsqrt(self, x: Value) -> Value:
        y = self._small(x)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            cube, halved = self._small(saved[0]), self._small(gradients[0])
            return (self.new(cube.numel, cube.width, cube.nbytes + halved.nbytes),)

        self.record(y, (x,), (y,), backward)
        return y

    def _scale_rows(self, x: Value, factors: Value) -> Value:
        y, rows = self.new(x.numel, x.width, x.nbytes + factors.nbytes), factors.numel

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            products = self.new(g.numel, g.width, g.nbytes + saved[0].nbytes)
            of_x = self.new(g.numel, g.width, g.nbytes + saved[1].nbytes)
            return of_x, self.new(rows, g.width, products.nbytes)

        self.record(y, (x, factors), (x, factors), backward)
        return y

    def _scale_columns(self, x: Value, weight: Value, rows: int) -> Value:
        y = self.new(x.numel, x.width, x.nbytes + weight.nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g, scale = gradients[0], saved[1]
            products = self.new(g.numel, g.width, g.nbytes + saved[0].nbytes)
            of_x = self.new(g.numel, g.width, g.nbytes + scale.nbytes)
            of_weight = self.new(scale.numel, g.width, products.nbytes)
            return of_x, self.cast(of_weight, scale.width)

        self.record(y, (x, weight), (x, weight), backward)
        return y
