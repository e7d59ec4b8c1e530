"""A torch without numbers: a tape of nodes over storages that count themselves, and a backward pass
over it.

A program written like the real one keeps what the real one keeps, for as long. The backward pass
visits nodes in autograd's order (latest first, gradients of leaves at once), adds gradients that
meet, and lets go of what a node saved when the node is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from heapq import heappop, heappush
from itertools import count
from typing import Any

from .live import Memory, Storage, Value

_AT_ONCE = -(1 << 62)  # gradients of leaves are put away before anything else


class Leaf:
    """Where a gradient ends: it is kept as `grad`, added to what is there. `hook` runs after
    each."""

    __slots__ = ("name", "value", "shape", "grad", "hook", "term", "relayout")
    order, edges = _AT_ONCE, ()

    def __init__(
        self, value: Value, shape: tuple[int, ...] = (), name: str = "", term: str = "temporary"
    ) -> None:
        self.value, self.shape, self.name, self.term = value, shape, name, term
        self.grad: Value | None = None
        self.hook: Callable[[Leaf], None] | None = None
        # whether a first gradient lies differently in memory and is copied
        self.relayout: Callable[[Value], bool] | None = None
        value.node = self

    def take(self) -> Value | None:
        """The gradient, given away; the leaf is done with, and no longer refers to itself through
        its value."""
        gradient, self.grad, self.value = self.grad, None, None
        return gradient

    def put(self, machine: Machine, gradient: Value) -> None:
        """Keep a gradient, or add it in place."""
        if self.grad is not None:
            machine.kernel(self.grad.nbytes + gradient.nbytes, self.grad.nbytes)
            del gradient  # autograd has let go of it when the hook runs
        else:
            if self.relayout is not None and self.relayout(gradient):
                gradient = machine.new(gradient.numel, gradient.width, gradient.nbytes)
                gradient.layout = self.value.layout
            if self.term != "temporary" and gradient.storage.term == "temporary":
                gradient.storage.become(self.term)
            self.grad = gradient.detach()
        if self.hook is not None:
            self.hook(self)


class Held:
    """What a node saves of one tensor; the machine is told when it is let go."""

    __slots__ = ("value", "machine")

    def __init__(self, machine: Machine, value: Value) -> None:
        self.machine, self.value = machine, value.detach()
        machine.hold(value.storage)

    def __del__(self) -> None:
        self.machine.release(self.value.storage)


class Node:
    """One step of the tape. `backward(saved values, gradients of the outputs)` gives one gradient
    per edge, or None."""

    __slots__ = ("order", "edges", "saved", "backward", "scope", "outputs")

    def __init__(
        self,
        order: int,
        edges: list[tuple[Node | Leaf, int] | None],
        saved: list[Held],
        backward: Callable[..., Sequence[Value | None]],
        scope: str,
        outputs: int,
    ) -> None:
        self.order, self.edges, self.saved, self.backward, self.scope, self.outputs = (
            order,
            edges,
            saved,
            backward,
            scope,
            outputs,
        )


class Machine(Memory):
    """Counts what is alive, and what every scope's kernels compute and move; keeps the tape.

    `rows[scope, phase]` is [FLOPs, HBM bytes]; phases are forward, backward and recompute.
    """

    def __init__(self) -> None:
        super().__init__()
        self.order, self.scope, self.phase, self.recording = 0, "", "forward", True
        self.rows: dict[tuple[str, str], list[int]] = {}
        # told when a scope is entered, forward or backward
        self.watcher: Callable[[str], None] | None = None

    def enter(self, scope: str) -> None:
        """What runs from now on belongs to `scope`."""
        self.scope = scope
        if self.watcher is not None:
            self.watcher(scope)

    def kernel(self, read: int, written: int, flops: int = 0) -> None:
        """Enter one kernel's work under the current scope and phase."""
        row = self.rows.get((self.scope, self.phase))
        if row is None:
            row = self.rows[self.scope, self.phase] = [0, 0]
        row[0] += flops
        row[1] += read + written

    def new(self, numel: int, width: int, read: int = 0, flops: int = 0) -> Value:
        """The result of a kernel that reads `read` bytes."""
        value = Value(Storage(self, numel * width), numel, width)
        self.kernel(read, value.nbytes, flops)
        return value

    def record(
        self,
        outputs: Value | Sequence[Value],
        inputs: Sequence[Value | None],
        saved: Sequence[Value],
        backward: Callable[..., Any],
    ) -> None:
        """Put a node on the tape if any input leads to a gradient; `backward(saved, gradients)` as
        in Node."""
        if not self.recording or not any(x is not None and x.node is not None for x in inputs):
            return
        outputs = (outputs,) if isinstance(outputs, Value) else outputs
        edges = [None if x is None or x.node is None else (x.node, x.slot) for x in inputs]
        self.order += 1
        node = Node(
            -self.order, edges, [Held(self, x) for x in saved], backward, self.scope, len(outputs)
        )
        for slot, value in enumerate(outputs):
            value.node, value.slot = node, slot

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """As torch.no_grad."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    def go_back(self, roots: Sequence[tuple[Node, int, Value]]) -> None:
        """The backward pass from `roots`, (node, output, gradient) each."""
        scope, phase, recording = self.scope, self.phase, self.recording
        self.phase, self.recording = "backward", False
        waiting = _dependencies(node for node, _, _ in roots)
        buffers: dict[Node | Leaf, list[Value | None]] = {}
        ready: list[tuple[int, int, Node | Leaf]] = []
        under_way, entered = False, count()  # of equal order: first come, first served
        for node, slot, gradient in roots:
            if node not in buffers:
                buffers[node] = [None] * getattr(node, "outputs", 1)
                heappush(ready, (node.order, next(entered), node))
            self._meet(buffers[node], slot, gradient)
        while ready:
            node = heappop(ready)[2]
            gradients = buffers.pop(node)
            if isinstance(node, Leaf):
                node.put(self, gradients.pop())
                continue
            if node.scope != self.scope or not under_way:
                under_way = True
                self.enter(node.scope)
            results = list(node.backward([held.value for held in node.saved], gradients))
            del gradients
            node.saved = []
            for i, edge in enumerate(node.edges):
                if edge is None:
                    continue
                following, slot = edge
                if results[i] is not None:
                    if following not in buffers:
                        buffers[following] = [None] * getattr(following, "outputs", 1)
                    self._meet(buffers[following], slot, results[i])
                    results[i] = None
                waiting[following] -= 1
                if not waiting[following] and following in buffers:
                    heappush(ready, (following.order, next(entered), following))
            del results
        self.scope, self.phase, self.recording = scope, phase, recording

    def _meet(self, buffer: list[Value | None], slot: int, gradient: Value) -> None:
        """Gradients that meet are added, out of place: a dispatch mode is watching, so autograd may
        not reuse the first."""
        there = buffer[slot]
        if there is None:
            buffer[slot] = gradient
        else:
            total = self.new(there.numel, there.width, there.nbytes + gradient.nbytes)
            total.layout = there.layout if there.layout == gradient.layout else ""
            buffer[slot] = total


def _dependencies(roots: Iterator[Node]) -> dict[Node | Leaf, int]:
    """How many nodes on the way send a gradient to each node."""
    counts: dict[Node | Leaf, int] = {}
    seen = set(roots)
    stack = list(seen)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None:
                counts[edge[0]] = counts.get(edge[0], 0) + 1
                if edge[0] not in seen:
                    seen.add(edge[0])
                    stack.append(edge[0])
    return counts
