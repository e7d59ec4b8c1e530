"""The kernels inside attention. Here a reshape may copy: a (b, a, s, d) tensor need not lie in memory as it is written."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import Kernels
from .live import Storage, Value


class Heads:
    """Sizes of a (b, a, s, d) tensor, and whether its memory can be read as another shape without a copy."""

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
        return {"": (a * s * d, s * d, d, 1), "bsad": (a * s * d, d, a * d, 1), "bads": (a * s * d, s * d, 1, s)}[layout]

    def merges(self, layout: str, outer: int, inner: int) -> bool:
        """Whether dims `outer` and `inner` (0 b, 1 a, 2 s, 3 d) can be seen as one."""
        sizes, strides = (self.b, self.a, self.s, self.d), self.strides(layout)
        return 1 in (sizes[outer], sizes[inner]) or strides[outer] == sizes[inner] * strides[inner]

    def alike(self, one: str, other: str) -> bool:
        """Whether the two layouts are the same for these sizes."""
        return all(size == 1 or x == y for size, x, y in zip((self.b, self.a, self.s, self.d), self.strides(one), self.strides(other), strict=True))


class Torch(Kernels):
    """All of the model's kernels."""

    def batched(self, left: Value, right: Value, batch: int, m: int, k: int, n: int) -> Value:
        """(batch, m, k) times (batch, k, n)."""
        flops = 2 * batch * m * k * n
        y = self.new(batch * m * n, left.width, left.nbytes + right.nbytes, flops)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            of_right = self.new(batch * k * n, g.width, saved[0].nbytes + g.nbytes, flops)
            return self.new(batch * m * k, g.width, saved[1].nbytes + g.nbytes, flops), of_right

        self.record(y, (left, right), [left, right], backward)
        return y

    def split_heads(self, x: Value, heads: Heads) -> Value:
        """(b, s, a·d) → (b, a, s, d), a view; its gradient is copied where it cannot be seen as (b, s, a·d)."""
        y = x.view("bsad").detach()

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            g = gradients[0]
            if not heads.merges(g.layout, 1, 3):
                return (self._copied(g),)
            return (g.view("" if heads.merges(g.layout, 0, 2) and heads.alike(g.layout, "bsad") or heads.merges(g.layout, 0, 2) else "bads"),)

        self.record(y, (x,), (), backward)
        return y

    def join_heads(self, x: Value, heads: Heads) -> Value:
        """(b, a, s, d) → (b, s, a·d), copied where it must be."""
        y = x.view().detach() if heads.merges(x.layout, 1, 3) else self.new(x.numel, x.width, x.nbytes)
        self.record(y, (x,), (), lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout="bsad"),))
        return y

    def rotate(self, x: Value, heads: Heads) -> Value:
        """Rotary positions, as model.rotate writes them."""
        half, table, s = heads.d // 2, heads.s * (heads.d // 2), heads.s
        frequency = self._small(self._small(self._small(self.new(half, 4))))      # arange, negated, divided, the power
        angle = self._outer(self.new(s, 4), frequency, table)
        cos = self.cast(self.new(table, 4, angle.nbytes), x.width)
        sin = self.cast(self.new(table, 4, angle.nbytes), x.width)
        left, right = self._halves(x, heads)
        turned = self.add(self.times(left, cos), self.times(right, sin), subtract=True)
        return self._cat(turned, self.add(self.times(left, sin), self.times(right, cos)))

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
        self.record(y, (x,), (table,), lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),))
        return y

    def fused_attention(self, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
        """F.scaled_dot_product_attention, causal: two products forward, five backward, no (s, s) matrix in memory."""
        product = 2 * heads.b * heads.a * heads.s * heads.s * heads.d
        y = self.new(q.numel, q.width, q.nbytes + k.nbytes + v.nbytes, 2 * product)
        y.layout = q.layout
        lse = self.new(heads.b * heads.a * heads.s, 4)
        extra = [Value(Storage(self, size), size, 1) for size in self.convention.attention_state_bytes]

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value, Value]:
            g, q, k, v = gradients[0], *saved[:3]
            read = g.nbytes + sum(x.nbytes for x in saved)
            self.kernel(read, 0, 5 * product)
            found = tuple(self.new(x.numel, g.width) for x in (q, k, v))
            for new, like in zip(found, (q, k, v), strict=True):
                new.layout = like.layout
            return found

        self.record(y, (q, k, v), (q, k, v, y, lse, *extra), backward)
        return y

    def repeat(self, x: Value, groups: Heads, times: int) -> Value:
        """Each key/value head `times` times over."""
        y = self.new(x.numel * times, x.width, x.nbytes)
        self.record(y, (x,), (), lambda saved, g: (self.new(g[0].numel // times, g[0].width, g[0].nbytes),))
        return y

    def _flat(self, x: Value, heads: Heads, layout: str) -> Value:
        """As a matrix product over (b·a) wants it; copied where b and a cannot be seen as one."""
        y = x.view().detach() if heads.merges(x.layout, 0, 1) else self.new(x.numel, x.width, x.nbytes)
        self.record(y, (x,), (), lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout=layout),))
        return y

    def scores(self, q: Value, k: Value, heads: Heads) -> Value:
        """q kᵀ / √d, (b, a, s, s)."""
        product = self.products(q, k, heads)
        y = self.new(product.numel, product.width, product.nbytes)
        self.record(y, (product,), (), lambda saved, g: (self._small(g[0]),))
        return y

    def products(self, q: Value, k: Value, heads: Heads) -> Value:
        """q kᵀ, (b, a, s, s)."""
        return self.batched(self._flat(q, heads, ""), self._flat(k, heads, "bads"), heads.b * heads.a, heads.s, heads.d, heads.s)

    def masked(self, scores: Value, mask: Value) -> Value:
        """Scores of future tokens at −∞."""
        y = self.new(scores.numel, scores.width, scores.nbytes + mask.nbytes)
        self.record(y, (scores,), (mask,), lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),))
        return y

    def softmax(self, x: Value) -> Value:
        """Over the last dim; CUDA's autocast does it in fp32."""
        if self.autocast and self.convention.softmax_in_fp32:
            x = self.cast(x, 4)
        y = self.new(x.numel, x.width, x.nbytes)
        self.record(y, (x,), (y,), lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),))
        return y

    def mix(self, weights: Value, v: Value, heads: Heads) -> Value:
        """(b, a, s, s) weights times v; the gradient that comes back is copied where b and a cannot be seen as one."""
        y = self.batched(self._for_product(weights), self._flat(v, heads, ""), heads.b * heads.a, heads.s, heads.s, heads.d).view()
        node_input = y
        z = y.detach()

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            return (gradients[0] if heads.merges(gradients[0].layout, 0, 1) else self._copied(gradients[0]),)

        self.record(z, (node_input,), (), backward)
        return z
