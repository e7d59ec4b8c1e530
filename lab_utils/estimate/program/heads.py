"""Tensors cut into heads, and rotary positions on them. Here a reshape may copy: a (b, a, s, d)
tensor need not lie in memory as it is written."""

from __future__ import annotations

from collections.abc import Sequence

from .live import Value
from .norms import Norms


class Heads:
    """Sizes of a (b, a, s, d) tensor, and whether its memory can be read as another shape without a
    copy."""

    __slots__ = ("b", "a", "s", "d")

    def __init__(self, b: int, a: int, s: int, d: int) -> None:
        self.b, self.a, self.s, self.d = b, a, s, d

    @property
    def numel(self) -> int:
        """Elements."""
        return self.b * self.a * self.s * self.d

    def strides(self, layout: str) -> tuple[int, int, int, int]:
        """Of b, a, s and d."""
        a, s, d = self.a, self.s, self.d
        return {
            "": (a * s * d, s * d, d, 1),
            "bsad": (a * s * d, d, a * d, 1),
            "bads": (a * s * d, s * d, 1, s),
        }[layout]

    def merges(self, layout: str, outer: int, inner: int) -> bool:
        """Whether dims `outer` and `inner` (0 b, 1 a, 2 s, 3 d) can be seen as one."""
        sizes, strides = (self.b, self.a, self.s, self.d), self.strides(layout)
        return 1 in (sizes[outer], sizes[inner]) or strides[outer] == sizes[inner] * strides[inner]

    def alike(self, one: str, other: str) -> bool:
        """Whether the two layouts are the same for these sizes."""
        return all(
            size == 1 or x == y
            for size, x, y in zip(
                (self.b, self.a, self.s, self.d),
                self.strides(one),
                self.strides(other),
                strict=True,
            )
        )


class HeadKernels(Norms):
    """A machine that cuts into heads, turns them and joins them."""

    def split_heads(self, x: Value, heads: Heads) -> Value:
        """(b, s, a·d) → (b, a, s, d), a view; its gradient is copied where it cannot be seen as (b,
        s, a·d)."""
        y = x.view("bsad").detach()

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            g = gradients[0]
            if not heads.merges(g.layout, 1, 3):
                return (self._copied(g),)
            return (
                g.view(
                    ""
                    if heads.merges(g.layout, 0, 2)
                    and heads.alike(g.layout, "bsad")
                    or heads.merges(g.layout, 0, 2)
                    else "bads"
                ),
            )

        self.record(y, (x,), (), backward)
        return y

    def join_heads(self, x: Value, heads: Heads) -> Value:
        """(b, a, s, d) → (b, s, a·d), copied where it must be."""
        y = (
            x.view().detach()
            if heads.merges(x.layout, 1, 3)
            else self.new(x.numel, x.width, x.nbytes)
        )
        self.record(
            y,
            (x,),
            (),
            lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout="bsad"),),
        )
        return y

    def rotate(self, x: Value, heads: Heads) -> Value:
        """Rotary positions, as model.rotate writes them."""
        if self.convention.fused_rotary:
            return self._turned(x)
        half, table, s = heads.d // 2, heads.s * (heads.d // 2), heads.s
        # arange, negated, divided, the power
        frequency = self._small(self._small(self._small(self.new(half, 4))))
        angle = self._outer(self.new(s, 4), frequency, table)
        cos = self.cast(self.new(table, 4, angle.nbytes), x.width)
        sin = self.cast(self.new(table, 4, angle.nbytes), x.width)
        left, right = self._halves(x, heads)
        turned = self.add(self.times(left, cos), self.times(right, sin), subtract=True)
        return self._cat(turned, self.add(self.times(left, sin), self.times(right, cos)))

    def _turned(self, x: Value) -> Value:
        """One kernel, whose result lies as its input; the table of angles is one for all layers,
        made before the first step."""
        y = self._small(x)
        y.layout = x.layout

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            of_x = self._small(gradients[0])
            of_x.layout = gradients[0].layout
            return (of_x,)

        self.record(y, (x,), (), backward)
        return y

    def _outer(self, positions: Value, frequency: Value, numel: int) -> Value:
        return self.new(numel, 4, positions.nbytes + frequency.nbytes)

    def _halves(self, x: Value, heads: Heads) -> tuple[Value, Value]:
        left, right = (Value(x.storage, x.numel // 2, x.width) for _ in range(2))

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            return (self.new(2 * gradients[0].numel, gradients[0].width, 2 * gradients[0].nbytes),)

        self.record((left, right), (x,), (), backward)
        return left, right

    def _cat(self, left: Value, right: Value) -> Value:
        y = self.new(2 * left.numel, left.width, 2 * left.nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            return Value(g.storage, g.numel // 2, g.width), Value(g.storage, g.numel // 2, g.width)

        self.record(y, (left, right), (), backward)
        return y

    def times(self, x: Value, table: Value) -> Value:
        """x times a table that needs no gradient, broadcast."""
        y = self.new(x.numel, x.width, x.nbytes + table.nbytes)
        self.record(
            y,
            (x,),
            (table,),
            lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y
