"""Tensors cut into heads, and rotary positions on them. Here a reshape may copy: a (b, a, s, d)
tensor need not lie in memory as it is written."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Torch
from .live import Value


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


def split_heads(torch: Torch, x: Value, heads: Heads) -> Value:
    """(b, s, a·d) → (b, a, s, d), a view; its gradient is copied where it cannot be seen as (b,
    s, a·d)."""
    y = x.view("bsad").detach()

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
        g = gradients[0]
        if not heads.merges(g.layout, 1, 3):
            return (torch.copied(g),)
        return (
            g.view(
                ""
                if heads.merges(g.layout, 0, 2)
                and heads.alike(g.layout, "bsad")
                or heads.merges(g.layout, 0, 2)
                else "bads"
            ),
        )

    torch.record(y, (x,), (), backward)
    return y


def join_heads(torch: Torch, x: Value, heads: Heads) -> Value:
    """(b, a, s, d) → (b, s, a·d), copied where it must be."""
    y = x.view().detach() if heads.merges(x.layout, 1, 3) else torch.new(x.numel, x.width, x.nbytes)
    torch.record(
        y, (x,), (), lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout="bsad"),)
    )
    return y


def rotate(torch: Torch, x: Value, heads: Heads) -> Value:
    """Rotary positions, as model.rotate writes them."""
    if torch.convention.fused_rotary:
        return _turned(torch, x)
    half, table, s = heads.d // 2, heads.s * (heads.d // 2), heads.s
    # arange, negated, divided, the power
    frequency = torch.elementwise(torch.elementwise(torch.elementwise(torch.new(half, 4))))
    angle = _outer(torch, torch.new(s, 4), frequency, table)
    cos = torch.cast(torch.new(table, 4, angle.nbytes), x.width)
    sin = torch.cast(torch.new(table, 4, angle.nbytes), x.width)
    left, right = _halves(torch, x, heads)
    turned = torch.add(times(torch, left, cos), times(torch, right, sin), subtract=True)
    return _cat(torch, turned, torch.add(times(torch, left, sin), times(torch, right, cos)))


def _turned(torch: Torch, x: Value) -> Value:
    """One kernel, whose result lies as its input; the table of angles is one for all layers,
    made before the first step."""
    y = torch.elementwise(x)
    y.layout = x.layout

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
        of_x = torch.elementwise(gradients[0])
        of_x.layout = gradients[0].layout
        return (of_x,)

    torch.record(y, (x,), (), backward)
    return y


def _outer(torch: Torch, positions: Value, frequency: Value, numel: int) -> Value:
    return torch.new(numel, 4, positions.nbytes + frequency.nbytes)


def _halves(torch: Torch, x: Value, heads: Heads) -> tuple[Value, Value]:
    left, right = (Value(x.storage, x.numel // 2, x.width) for _ in range(2))

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
        return (torch.new(2 * gradients[0].numel, gradients[0].width, 2 * gradients[0].nbytes),)

    torch.record((left, right), (x,), (), backward)
    return left, right


def _cat(torch: Torch, left: Value, right: Value) -> Value:
    y = torch.new(2 * left.numel, left.width, 2 * left.nbytes)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
        g = gradients[0]
        return Value(g.storage, g.numel // 2, g.width), Value(g.storage, g.numel // 2, g.width)

    torch.record(y, (left, right), (), backward)
    return y


def times(torch: Torch, x: Value, table: Value) -> Value:
    """x times a table that needs no gradient, broadcast."""
    y = torch.new(x.numel, x.width, x.nbytes + table.nbytes)
    torch.record(
        y,
        (x,),
        (table,),
        lambda saved, g: (torch.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
    )
    return y
