"""The kernels inside attention: fused, or products, masks and a softmax."""

from __future__ import annotations

from collections.abc import Sequence

from .conventions import Attention
from .heads import HeadKernels, Heads
from .live import Storage, Value


class Torch(HeadKernels):
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

    def fused_attention(self, q: Value, k: Value, v: Value, heads: Heads, groups: Heads) -> Value:
        """F.scaled_dot_product_attention, causal: two products forward, five backward, no (s, s)
        matrix in memory, where the convention has such a kernel."""
        kind = self.convention.attention(q.width, heads.a != groups.a)
        if kind is Attention.WRITTEN_OUT:
            return self._attention_of_parts(q, k, v, heads, groups)
        product = 2 * heads.b * heads.a * heads.s * heads.s * heads.d
        y = self.new(q.numel, q.width, q.nbytes + k.nbytes + v.nbytes, 2 * product)
        own = kind is Attention.EFFICIENT  # which lays out as (b, s, a, d) what it returns
        y.layout = "bsad" if own else q.layout
        lse = self.new(heads.b * heads.a * heads.s if self.recording or not own else 0, 4)
        extra = [Value(Storage(self, size), size, 1) for size in kind.value]

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value, Value]:
            g, q, k, v = gradients[0], *saved[:3]
            read = g.nbytes + sum(x.nbytes for x in saved)
            self.kernel(read, 0, 5 * product)
            found = tuple(self.new(x.numel, g.width) for x in (q, k, v))
            for new, like in zip(found, (q, k, v), strict=True):
                new.layout = "bsad" if own else like.layout
            return found

        self.record(y, (q, k, v), (q, k, v, y, lse, *extra), backward)
        return y

    def _attention_of_parts(
        self, q: Value, k: Value, v: Value, heads: Heads, groups: Heads
    ) -> Value:
        """As torch falls back where no kernel fits (_scaled_dot_product_attention_math): the roots
        of the scale on q and on k, and a mask that is added and stays to the end."""
        q, future = self._scaled(q), self.new(heads.s * heads.s, 1)
        future = self.new(heads.s * heads.s, q.width, future.nbytes)
        k, v = (self.repeat(x, groups, heads.a // groups.a) for x in (k, v))
        scores = self.products(q, self._scaled(k), heads)
        added = self.new(scores.numel, scores.width, scores.nbytes + future.nbytes)
        self.record(added, (scores,), (), lambda saved, g: (g[0],))
        del scores
        weights = self.softmax(added)
        del added
        return self.mix(weights, v, heads)

    def _scaled(self, x: Value) -> Value:
        y = self.scale(x)
        y.layout = x.layout
        return y

    def repeat(self, x: Value, groups: Heads, times: int) -> Value:
        """Each key/value head `times` times over."""
        y = self.new(x.numel * times, x.width, x.nbytes)
        self.record(
            y, (x,), (), lambda saved, g: (self.new(g[0].numel // times, g[0].width, g[0].nbytes),)
        )
        return y

    def _flat(self, x: Value, heads: Heads, layout: str) -> Value:
        """As a matrix product over (b·a) wants it; copied where b and a cannot be seen as one."""
        y = (
            x.view().detach()
            if heads.merges(x.layout, 0, 1)
            else self.new(x.numel, x.width, x.nbytes)
        )
        self.record(
            y,
            (x,),
            (),
            lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout=layout),),
        )
        return y

    def scores(self, q: Value, k: Value, heads: Heads) -> Value:
        """q kᵀ / √d, (b, a, s, s)."""
        product = self.products(q, k, heads)
        y = self.new(product.numel, product.width, product.nbytes)
        self.record(y, (product,), (), lambda saved, g: (self._small(g[0]),))
        return y

    def products(self, q: Value, k: Value, heads: Heads) -> Value:
        """q kᵀ, (b, a, s, s)."""
        return self.batched(
            self._flat(q, heads, ""),
            self._flat(k, heads, "bads"),
            heads.b * heads.a,
            heads.s,
            heads.d,
            heads.s,
        )

    def masked(self, scores: Value, mask: Value) -> Value:
        """Scores of future tokens at −∞."""
        y = self.new(scores.numel, scores.width, scores.nbytes + mask.nbytes)
        self.record(
            y,
            (scores,),
            (mask,),
            lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y

    def softmax(self, x: Value) -> Value:
        """Over the last dim; CUDA's autocast does it in fp32."""
        # x itself lives until the call returns
        wide = self.cast(x, 4) if self.autocast and self.convention.softmax_in_fp32 else x
        y = self.new(wide.numel, wide.width, wide.nbytes)
        self.record(
            y,
            (wide,),
            (y,),
            lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y

    def mix(self, weights: Value, v: Value, heads: Heads) -> Value:
        """(b, a, s, s) weights times v; the gradient that comes back is copied where b and a cannot
        be seen as one."""
        y = self.batched(
            self._for_product(weights),
            self._flat(v, heads, ""),
            heads.b * heads.a,
            heads.s,
            heads.s,
            heads.d,
        ).view()
        node_input = y
        z = y.detach()

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            return (
                (
                    gradients[0]
                    if heads.merges(gradients[0].layout, 0, 1)
                    else self._copied(gradients[0])
                ),
            )

        self.record(z, (node_input,), (), backward)
        return z
