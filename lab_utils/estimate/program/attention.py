"""The kernels inside attention: fused, or products, masks and a softmax."""

from __future__ import annotations

from collections.abc import Sequence

from .conventions import Attention
from .heads import Heads
from .kernels import Torch
from .live import Storage, Value


def batched(torch: Torch, left: Value, right: Value, batch: int, m: int, k: int, n: int) -> Value:
    """(batch, m, k) times (batch, k, n)."""
    flops = 2 * batch * m * k * n
    y = torch.new(batch * m * n, left.width, left.nbytes + right.nbytes, flops)

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
        g = gradients[0]
        of_right = torch.new(batch * k * n, g.width, saved[0].nbytes + g.nbytes, flops)
        return torch.new(batch * m * k, g.width, saved[1].nbytes + g.nbytes, flops), of_right

    torch.record(y, (left, right), [left, right], backward)
    return y


def fused_attention(
    torch: Torch, q: Value, k: Value, v: Value, heads: Heads, groups: Heads
) -> Value:
    """F.scaled_dot_product_attention, causal: two products forward, five backward, no (s, s)
    matrix in memory, where the convention has such a kernel."""
    kind = torch.convention.attention(q.width, heads.a != groups.a)
    if kind is Attention.WRITTEN_OUT:
        return _attention_of_parts(torch, q, k, v, heads, groups)
    product = 2 * heads.b * heads.a * heads.s * heads.s * heads.d
    y = torch.new(q.numel, q.width, q.nbytes + k.nbytes + v.nbytes, 2 * product)
    own = kind is Attention.EFFICIENT  # which lays out as (b, s, a, d) what it returns
    y.layout = "bsad" if own else q.layout
    lse = torch.new(heads.b * heads.a * heads.s if torch.recording or not own else 0, 4)
    extra = [Value(Storage(torch, size), size, 1) for size in kind.value]

    def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value, Value]:
        g, q, k, v = gradients[0], *saved[:3]
        read = g.nbytes + sum(x.nbytes for x in saved)
        torch.kernel(read, 0, 5 * product)
        found = tuple(torch.new(x.numel, g.width) for x in (q, k, v))
        for new, like in zip(found, (q, k, v), strict=True):
            new.layout = "bsad" if own else like.layout
        return found

    torch.record(y, (q, k, v), (q, k, v, y, lse, *extra), backward)
    return y


def _attention_of_parts(
    torch: Torch, q: Value, k: Value, v: Value, heads: Heads, groups: Heads
) -> Value:
    """As torch falls back where no kernel fits (_scaled_dot_product_attention_math): the roots
    of the scale on q and on k, and a mask that is added and stays to the end."""
    q, future = _scaled(torch, q), torch.new(heads.s * heads.s, 1)
    future = torch.new(heads.s * heads.s, q.width, future.nbytes)
    k, v = (repeat(torch, x, groups, heads.a // groups.a) for x in (k, v))
    scores = products(torch, q, _scaled(torch, k), heads)
    added = torch.new(scores.numel, scores.width, scores.nbytes + future.nbytes)
    torch.record(added, (scores,), (), lambda saved, g: (g[0],))
    del scores
    weights = softmax(torch, added)
    del added
    return mix(torch, weights, v, heads)


def _scaled(torch: Torch, x: Value) -> Value:
    y = torch.scale(x)
    y.layout = x.layout
    return y


def repeat(torch: Torch, x: Value, groups: Heads, times: int) -> Value:
    """Each key/value head `times` times over."""
    y = torch.new(x.numel * times, x.width, x.nbytes)
    torch.record(
        y, (x,), (), lambda saved, g: (torch.new(g[0].numel // times, g[0].width, g[0].nbytes),)
    )
    return y


def _flat(torch: Torch, x: Value, heads: Heads, layout: str) -> Value:
    """As a matrix product over (b·a) wants it; copied where b and a cannot be seen as one."""
    y = x.view().detach() if heads.merges(x.layout, 0, 1) else torch.new(x.numel, x.width, x.nbytes)
    torch.record(
        y, (x,), (), lambda saved, g: (Value(g[0].storage, g[0].numel, g[0].width, layout=layout),)
    )
    return y


def scaled_products(torch: Torch, q: Value, k: Value, heads: Heads) -> Value:
    """q kᵀ / √d, (b, a, s, s)."""
    product = products(torch, q, k, heads)
    y = torch.new(product.numel, product.width, product.nbytes)
    torch.record(y, (product,), (), lambda saved, g: (torch.elementwise(g[0]),))
    return y


def products(torch: Torch, q: Value, k: Value, heads: Heads) -> Value:
    """q kᵀ, (b, a, s, s)."""
    return batched(
        torch,
        _flat(torch, q, heads, ""),
        _flat(torch, k, heads, "bads"),
        heads.b * heads.a,
        heads.s,
        heads.d,
        heads.s,
    )


def masked(torch: Torch, scores: Value, mask: Value) -> Value:
    """Scores of future tokens at −∞."""
    y = torch.new(scores.numel, scores.width, scores.nbytes + mask.nbytes)
    torch.record(
        y,
        (scores,),
        (mask,),
        lambda saved, g: (torch.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
    )
    return y


def softmax(torch: Torch, x: Value) -> Value:
    """Over the last dim; CUDA's autocast does it in fp32."""
    # x itself lives until the call returns
    wide = torch.cast(x, 4) if torch.autocast and torch.convention.softmax_in_fp32 else x
    y = torch.new(wide.numel, wide.width, wide.nbytes)
    torch.record(
        y,
        (wide,),
        (y,),
        lambda saved, g: (torch.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
    )
    return y


def mix(torch: Torch, weights: Value, v: Value, heads: Heads) -> Value:
    """(b, a, s, s) weights times v; the gradient that comes back is copied where b and a cannot
    be seen as one."""
    y = batched(
        torch,
        torch.for_product(weights),
        _flat(torch, v, heads, ""),
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
                else torch.copied(gradients[0])
            ),
        )

    torch.record(z, (node_input,), (), backward)
    return z
