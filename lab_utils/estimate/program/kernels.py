"""The kernels that the model's forward pass calls, as torch 2.13 runs them eagerly: what each
allocates, saves and moves.

Sizes are in elements, widths in bytes. Every kernel reads its inputs from memory and writes its
result there; a view costs nothing. FLOPs are counted for matrix products and attention alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .conventions import CPU, Convention
from .live import Storage, Value
from .tape import Leaf, Machine

INDEX = 8  # bytes of an int64 token, target or position


class Torch(Machine):
    """A machine with torch's kernels; norms, heads and attention have files of their own.
    `autocast`: the width that matrix products run in, or 0."""

    def __init__(self, convention: Convention = CPU) -> None:
        super().__init__()
        self.convention, self.autocast, self.caching = convention, 0, True
        self.casts: dict[Leaf, Value] = {}

    @contextmanager
    def casting(self, width: int, caching: bool = True) -> Iterator[None]:
        """As torch.autocast: weights are cast once; the copies go when the outermost context ends.
        Width 0: nothing is cast."""
        before = self.autocast, self.caching
        self.autocast, self.caching = width, caching
        try:
            yield
        finally:
            self.autocast, self.caching = before
            if not self.autocast:
                self.casts.clear()

    # -- copies ------------------------------------------------------------------------------------

    def cast(self, x: Value, width: int, weight: bool = False) -> Value:
        """x in another width; x itself if it has it."""
        if x.width == width:
            return x
        y = Value(
            Storage(self, x.numel * width, weight_copy=weight), x.numel, width, layout=x.layout
        )
        self.kernel(x.nbytes, y.nbytes)
        before = x.width
        self.record(y, (x,), (), lambda saved, g: (self._cast_back(g[0], before),))
        return y

    def _cast_back(self, gradient: Value, width: int) -> Value:
        result = self.new(gradient.numel, width, gradient.nbytes)
        result.layout = gradient.layout
        return result

    def for_product(self, x: Value | None) -> Value | None:
        """As autocast hands it to a matrix product; weights from its cache."""
        if x is None or not self.autocast or x.width == self.autocast:
            return x
        leaf = x.node if isinstance(x.node, Leaf) and x.node.term == "gradients" else None
        if leaf is None:
            return self.cast(x, self.autocast, weight=x.storage.term in ("parameters", "gathered"))
        if leaf in self.casts:
            return self.casts[leaf]
        copy = self.cast(x, self.autocast, weight=True)
        if self.caching and self.recording:
            self.casts[leaf] = copy
        return copy

    def copy(self, x: Value, layout: str = "") -> Value:
        """x, written out anew (clone, contiguous); its gradient passes as it is."""
        y = self.new(x.numel, x.width, x.nbytes)
        y.layout = layout
        self.record(y, (x,), (), lambda saved, g: (g[0],))
        return y

    def copied(self, gradient: Value) -> Value:
        """A gradient laid out anew; nothing is recorded."""
        return self.new(gradient.numel, gradient.width, gradient.nbytes)

    # -- matrix products ---------------------------------------------------------------------------

    def linear(self, x: Value, weight: Value, bias: Value | None, out: int, inner: int) -> Value:
        """(…, inner) → (…, out)."""
        bias, weight, x = (self.for_product(v) for v in (bias, weight, x))
        rows, flops = x.numel // inner, 2 * (x.numel // inner) * out * inner
        y = self.new(
            rows * out,
            x.width,
            x.nbytes + weight.nbytes + (bias.nbytes if bias is not None else 0),
            flops,
        )
        has_bias = bias is not None
        weight_needed = weight.node is not None

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value | None, ...]:
            g = gradients[0]
            if g.layout:  # k's gradient lies transposed where the head size runs fastest
                g = self.copied(g)
            of_x = self.new(rows * inner, g.width, g.nbytes + out * inner * g.width, flops)
            of_weight = (
                self.weight_gradient(out * inner, g.width, g.nbytes + rows * inner * g.width, flops)
                if weight_needed
                else None
            )
            return of_x, of_weight, self.new(out, g.width, g.nbytes) if has_bias else None

        self.record(y, (x, weight, bias), [x, weight] if weight_needed else [weight], backward)
        return y

    def weight_gradient(self, numel: int, width: int, read: int, flops: int) -> Value:
        """A tensor of its own; or nothing new, where the product adds it to the fp32 gradient."""
        if not self.convention.main_gradients:
            return self.new(numel, width, read, flops)
        self.kernel(read, 0, flops)
        return Value(Storage(self, 0), numel, 0)

    # -- everything else ---------------------------------------------------------------------------

    def add(self, x: Value, y: Value, subtract: bool = False) -> Value:
        """x ± y in the wider of their widths; the gradient passes as it is, cast where it must
        be."""
        z = self.new(x.numel, max(x.width, y.width), x.nbytes + y.nbytes)
        widths = x.width, y.width

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            other = self.elementwise(g) if subtract else g
            return tuple(
                v if v.width == width else self._cast_back(v, width)
                for v, width in zip((g, other), widths, strict=True)
            )

        self.record(z, (x, y), (), backward)
        return z

    def add_row(self, x: Value, row: Value) -> Value:
        """x plus a bias, broadcast over the rows."""
        z = self.new(x.numel, max(x.width, row.width), x.nbytes + row.nbytes)
        count, width = row.numel, row.width

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            return gradients[0], self.new(count, width, gradients[0].nbytes)

        self.record(z, (x, row), (), backward)
        return z

    def multiply(self, x: Value, y: Value) -> Value:
        """Element by element, same shapes."""
        z = self.new(x.numel, x.width, x.nbytes + y.nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            of_x, of_y = (
                self.new(g.numel, g.width, g.nbytes + other.nbytes)
                for other in (saved[1], saved[0])
            )
            return of_x, of_y

        self.record(z, (x, y), (x, y), backward)
        return z

    def activation(self, x: Value) -> Value:
        """gelu or silu: saves its input."""
        y = self.new(x.numel, x.width, x.nbytes)
        self.record(
            y,
            (x,),
            (x,),
            lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y

    def gated(self, gate: Value, up: Value) -> Value:
        """silu(gate) · up: two kernels, or one that saves what it reads."""
        if not self.convention.fused_gate:
            return self.multiply(self.activation(gate), up)
        y = self.new(up.numel, up.width, gate.nbytes + up.nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value, Value]:
            g = gradients[0]
            read = g.nbytes + saved[0].nbytes + saved[1].nbytes
            return self.new(g.numel, g.width, read), self.new(g.numel, g.width)

        self.record(y, (gate, up), (gate, up), backward)
        return y

    def embedding(self, weight: Value, indices: Value, count: int, width: int) -> Value:
        """`count` rows of `width` elements; the gradient is as large as the table."""
        y = self.new(count * width, weight.width, count * width * weight.width + indices.nbytes)
        numel = weight.numel
        self.record(
            y,
            (weight,),
            (indices,),
            lambda saved, g: (self.new(numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y

    def cross_entropy(self, logits: Value, targets: Value) -> Value:
        """The loss summed over the targets: log-softmax in fp32, kept whole, and the target's entry
        of it."""
        if self.convention.loss_in_place:
            return self.loss_in_place(logits, targets)
        logs = self._log_softmax(self.cast(logits, 4))
        loss, count = self.new(1, 4, logs.nbytes + targets.nbytes), self.new(1, 4)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            return (self.new(saved[0].numel, 4, saved[1].nbytes),)

        self.record(loss, (logs,), (logs, targets, count), backward)
        return loss

    def loss_in_place(self, logits: Value, targets: Value, ranks: int = 1) -> Value:
        """The same in one kernel that keeps the logits and three fp32 numbers a row, from each rank
        that has some of the words; the gradient takes the logits' place."""
        rows = targets.numel
        statistics = self.new(3 * rows * ranks, 4, logits.nbytes + targets.nbytes)
        loss = self.new(1, 4, self.new(rows, 4, logits.nbytes).nbytes)

        def backward(saved: Sequence[Value], gradients: list[Value]) -> tuple[Value]:
            self.kernel(saved[0].nbytes, saved[0].nbytes)
            return (saved[0],)

        self.record(loss, (logits,), (logits, targets, statistics), backward)
        return loss

    def _log_softmax(self, x: Value) -> Value:
        y = self.elementwise(x)
        self.record(
            y,
            (x,),
            (y,),
            lambda saved, g: (self.new(g[0].numel, g[0].width, g[0].nbytes + saved[0].nbytes),),
        )
        return y

    def scale(self, x: Value) -> Value:
        """x times a number."""
        y = self.elementwise(x)
        self.record(y, (x,), (), lambda saved, g: (self.elementwise(g[0]),))
        return y

    def elementwise(self, x: Value) -> Value:
        """One pass that reads x and writes as much; nothing is recorded."""
        return self.new(x.numel, x.width, x.nbytes)
