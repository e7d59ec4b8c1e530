"""The same forward pass under tensor parallelism: parallel/tensor.py and parallel/vocabulary.py, line by line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...config import TrainConfig
from .attention import Torch
from .kernels import INDEX
from .live import Value
from .model import Program
from .tape import Leaf


class Message(NamedTuple):
    """One collective of one micro-batch: `bytes` of the unsharded tensor, in the pass that `phase` names."""

    op: str
    axis: str
    purpose: str
    phase: str      # "forward", "backward" or "recompute"
    bytes: int


class Owed:
    """Gradients of weights put off (zero-bubble), as parallel.deferred.WeightQueue keeps them: by (micro-batch, stage)."""

    def __init__(self, program: ParallelProgram) -> None:
        self.program = program
        self._waiting: dict[tuple[int, int], deque[tuple[Leaf, Value, Value]]] = {}
        self._now: deque[tuple[Leaf, Value, Value]] = deque()
        self.next_is: Callable[[str], None] | None = None      # told the weight whose turn it is

    def open(self, key: tuple[int, int]) -> None:
        """What is put in from now on belongs to `key`."""
        self._now = self._waiting.setdefault(key, deque())

    def put(self, weight: Leaf, gradient: Value, x: Value) -> None:
        """Owe `weight` the product of the two; both are kept until then."""
        for value in (gradient, x):
            self.program.torch.hold(value.storage)
        self._now.append((weight, gradient.detach(), x.detach()))

    def work_off(self, key: tuple[int, int]) -> None:
        """Compute what `key` still owes."""
        torch = self.program.torch
        torch.phase = "backward"
        owed = self._waiting.pop(key, deque())
        while owed:
            weight, gradient, x = owed.popleft()
            if self.next_is is not None:
                self.next_is(weight.name)
            torch.scope = weight.name.removesuffix(".weight")
            made = self.program.weight_gradient(gradient, x, weight)
            weight.put(torch, torch.cast(made, weight.value.width))
            del made
            for value in (gradient, x):
                torch.release(value.storage)
        torch.phase = "forward"


class ParallelProgram(Program):
    """One tensor-parallel rank's part. `messages`: (scope, Message) in the order in which they leave."""

    def __init__(self, torch: Torch, config: TrainConfig, shapes: Mapping[str, tuple[int, ...]], owed: bool = False) -> None:
        super().__init__(torch, config, shapes)
        self.ranks = config.parallel.tp
        self.scattered = config.parallel.sequence_parallel and self.ranks != 1
        self.messages: list[tuple[str, Message]] = []
        self.owed = Owed(self) if owed else None

    # -- regions ---------------------------------------------------------------------------------------------------

    def _send(self, op: str, nbytes: int) -> None:
        if self.ranks != 1:
            self.messages.append((self.torch.scope, Message(op, "tp", "activation", self.torch.phase, nbytes)))

    def _gather(self, x: Value) -> tuple[Value, Value | None]:
        """The whole, and what the collective holds until nobody refers to it."""
        if not self.scattered:
            return x, None
        whole = self.torch.new(self.ranks * x.numel, x.width, x.nbytes)
        copy = self.torch.new(x.numel, x.width, x.nbytes)
        self._send("all_gather", whole.nbytes)
        return whole, copy

    def _reduce(self, summand: Value) -> tuple[Value, Value | None]:
        """The sum, a view of the summand, and the ring's room for what comes in."""
        if not self.scattered:
            self._send("all_reduce", summand.nbytes)
            return summand, None
        self._send("reduce_scatter", summand.nbytes)
        part = summand.numel // self.ranks
        return Value(summand.storage, part, summand.width), self.torch.new(part, summand.width)

    def _own(self, shard: Value) -> Value:
        return self.torch.new(shard.numel, shard.width, shard.nbytes) if self.scattered else Value(shard.storage, shard.numel, shard.width)

    def _inside(self, x: Value | None, weight: bool = False) -> Value | None:
        torch = self.torch
        return torch.cast(x, torch.autocast, weight) if x is not None and torch.autocast else x

    def _weight(self, name: str) -> Value:
        value = self._value(name)
        return self._inside(value if self.owed is None else value.detach(), weight=True)

    def weight_gradient(self, gradient: Value, x: Value, leaf: Leaf) -> Value:
        """Of y = x Wᵀ."""
        out, inner = leaf.shape
        if gradient.layout:
            gradient = self.torch.new(gradient.numel, gradient.width, gradient.nbytes)
        return self.torch.new(out * inner, gradient.width, gradient.nbytes + x.nbytes, 2 * out * x.numel)

    def _gradient_of(self, leaf: Leaf, gradient: Value, x: Value) -> Value | None:
        if self.owed is None:
            return self.weight_gradient(gradient, x, leaf)
        self.owed.put(leaf, gradient, x)
        return None

    # -- products --------------------------------------------------------------------------------------------------

    def project(self, x: Value, *names: str, tied: str | None = None) -> tuple[Value, ...]:
        torch = self.torch
        self.torch.enter(names[0])
        weight_names = [tied or f"{name}.weight" for name in names]
        leaves = [self.leaves[name] for name in weight_names]
        weights = [self._weight(name) for name in weight_names]
        biases = [self._inside(self._value(f"{name}.bias")) for name in names]
        x = self._inside(x)
        outputs = self._column_forward(x, names, leaves, weights, biases)
        biased = [b is not None for b in biases]

        def backward(saved: list[Value], gradients: list[Value]) -> list[Value | None]:
            x, *weights = saved
            whole, gathering = self._gather(x)
            torch.scope = names[0]
            summand = self._product(gradients[0], weights[0], leaves[0])
            for name, gradient, weight, leaf in zip(names[1:], gradients[1:], weights[1:], leaves[1:], strict=True):
                torch.scope = name
                product = self._product(gradient, weight, leaf)
                torch.kernel(summand.nbytes + product.nbytes, summand.nbytes)
                del product
            torch.scope = names[0]
            of_x, ring = self._reduce(summand)
            of_weights = []
            for name, leaf, gradient in zip(names, leaves, gradients, strict=True):
                torch.scope = name
                of_weights.append(self._gradient_of(leaf, gradient, whole))
            of_biases = [torch.new(leaf.shape[0], g.width, g.nbytes) if b else None for leaf, g, b in zip(leaves, gradients, biased, strict=True)]
            del ring, gathering
            torch.scope = names[0]
            return [self._own(of_x), *of_weights, *of_biases]

        torch.scope = names[0]
        torch.record(outputs, (x, *weights, *biases), (x, *weights), backward)
        return outputs

    def _column_forward(self, x: Value, names: tuple[str, ...], leaves: list[Leaf], weights: list[Value], biases: list[Value | None]) -> tuple[Value, ...]:
        whole, _gathering = self._gather(x)
        outputs = []
        for name, leaf, weight, bias in zip(names, leaves, weights, biases, strict=True):
            self.torch.scope = name
            out, inner = leaf.shape
            rows = whole.numel // inner
            read = whole.nbytes + weight.nbytes + (bias.nbytes if bias is not None else 0)
            outputs.append(self.torch.new(rows * out, whole.width, read, 2 * rows * out * inner))
        return tuple(outputs)

    def _product(self, gradient: Value, weight: Value, leaf: Leaf) -> Value:
        out, inner = leaf.shape
        if gradient.layout:
            gradient = self.torch.new(gradient.numel, gradient.width, gradient.nbytes)
        rows = gradient.numel // out
        return self.torch.new(rows * inner, gradient.width, gradient.nbytes + weight.nbytes, 2 * rows * out * inner)

    def leave(self, name: str, x: Value) -> Value:
        torch = self.torch
        self.torch.enter(name)
        x, weight = self._inside(x), self._weight(f"{name}.weight")
        leaf = self.leaves[f"{name}.weight"]
        y = self._row_forward(x, weight, leaf)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value, Value | None]:
            x, weight = saved
            gradient, _gathering = self._gather(gradients[0])
            return self._product(gradient, weight, leaf), self._gradient_of(leaf, gradient, x)

        torch.record(y, (x, weight), (x, weight), backward)
        bias = self._value(f"{name}.bias")
        return y if bias is None else torch.add_row(y, self._inside(bias))

    def _row_forward(self, x: Value, weight: Value, leaf: Leaf) -> Value:
        out, inner = leaf.shape
        rows = x.numel // inner
        shard, ring = self._reduce(self.torch.new(rows * out, x.width, x.nbytes + weight.nbytes, 2 * rows * out * inner))
        del ring
        return self._own(shard)

    def project_out(self, x: Value) -> Value:
        return self.project(x, "head", tied="token_embedding.weight" if self.model.tied else None)[0]

    # -- the two ends ----------------------------------------------------------------------------------------------

    def embed(self, tokens: Value) -> Value:
        if self.ranks == 1:
            return super().embed(tokens)
        torch = self.torch
        self.torch.enter("token_embedding")
        x = self._embedded(tokens)
        if self.model.positions == "learned":
            self.torch.enter("position_embedding")
            positions = torch.new(self.model.seq, INDEX)
            if self.scattered and tokens.numel != self.model.seq:
                positions = torch.new(tokens.numel, INDEX, positions.nbytes)
            x = torch.add(x, torch.embedding(self._value("position_embedding.weight"), positions, x.numel // self.model.hidden, self.model.hidden))
        return x

    def _embedded(self, tokens: Value) -> Value:
        torch, count = self.torch, tokens.numel
        rows = torch.new(count, INDEX, tokens.nbytes)
        elsewhere = self._either(rows)
        found = torch.embedding(self._value("token_embedding.weight"), torch.new(count, INDEX, rows.nbytes), count, self.model.hidden)
        return self._left(torch.masked(found, elsewhere))

    def _either(self, rows: Value) -> Value:
        below, above = (self.torch.new(rows.numel, 1, rows.nbytes) for _ in range(2))
        return self.torch.new(rows.numel, 1, below.nbytes + above.nbytes)

    def _left(self, summand: Value) -> Value:
        y = self._left_forward(summand)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
            whole, _gathering = self._gather(gradients[0])
            return (whole,)

        self.torch.record(y, (summand,), (), backward)
        return y

    def _left_forward(self, summand: Value) -> Value:
        shard, ring = self._reduce(self.torch.new(summand.numel, summand.width, summand.nbytes))
        del ring
        return self._own(shard)

    def loss(self, logits: Value, targets: Value) -> Value:
        if self.ranks == 1:
            return super().loss(logits, targets)
        loss = self._cross_entropy(self.torch.cast(logits, 4), targets)
        self.count(targets)
        return loss

    def _cross_entropy(self, logits: Value, targets: Value) -> Value:
        torch, n = self.torch, targets.numel
        vocab = logits.numel // n
        loss, kept = self._loss_forward(logits, targets)

        def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
            softmax = saved[0]
            of_logits = torch.new(n * vocab, 4, softmax.nbytes)
            chosen = torch.new(n, 4, saved[2].nbytes)
            chosen = torch.new(n, 4, chosen.nbytes)
            torch.kernel(2 * of_logits.nbytes + chosen.nbytes, 2 * of_logits.nbytes)
            return (of_logits,)

        torch.record(loss, (logits,), kept, backward)
        return loss

    def _loss_forward(self, logits: Value, targets: Value) -> tuple[Value, tuple[Value, ...]]:
        torch, n = self.torch, targets.numel
        largest = torch.new(n, 4, logits.nbytes)
        self._send("all_reduce", largest.nbytes)
        shifted = torch.new(logits.numel, 4, logits.nbytes + largest.nbytes)
        rows = torch.new(n, INDEX, targets.nbytes)
        here = self._either(rows)
        rows = torch.new(n, INDEX, rows.nbytes + torch.new(n, 1, here.nbytes).nbytes)
        target_logit = self._picked(rows, here)
        torch.kernel(shifted.nbytes, shifted.nbytes)
        sums = self._stacked(target_logit, shifted)
        self._send("all_reduce", sums.nbytes)
        counted = torch.new(n, 1, targets.nbytes)
        torch.kernel(shifted.nbytes, shifted.nbytes)
        return self._total(n, counted), (shifted, rows, here, counted)

    def _picked(self, rows: Value, here: Value) -> Value:
        picked = self.torch.new(rows.numel, 4, rows.nbytes)
        nowhere = self.torch.new(rows.numel, 1, here.nbytes)
        return self.torch.new(rows.numel, 4, picked.nbytes + nowhere.nbytes)

    def _stacked(self, target_logit: Value, exponentials: Value) -> Value:
        total = self.torch.new(target_logit.numel, 4, exponentials.nbytes)
        return self.torch.new(2 * total.numel, 4, 2 * total.nbytes)

    def _total(self, n: int, counted: Value) -> Value:
        logs = self.torch.new(n, 4, 4 * n)
        logs = self.torch.new(n, 4, 2 * logs.nbytes)
        skipped = self.torch.new(n, 1, counted.nbytes)
        logs = self.torch.new(n, 4, logs.nbytes + skipped.nbytes)
        return self.torch.new(1, 4, logs.nbytes)


def program_of(torch: Torch, config: TrainConfig, shapes: Mapping[str, tuple[int, ...]], owed: bool = False) -> Program:
    """The rank's program: the plain one where nothing is shared out or put off."""
    if config.parallel.tp == 1 and not owed:
        return Program(torch, config, shapes)
    return ParallelProgram(torch, config, shapes, owed)
