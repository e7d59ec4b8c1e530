"""Exercise 2 at work: the bytes alive after forward, the gradients, the random numbers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..ranks import begin_case, saw
from ..watch import Watch, watch_threads
from .alone import off, told
from .segments_case import Case, Feed


@dataclass
class Facts:
    """What was seen; `…_off` are errors as shares of the norm, inf where something of another shape
    came, None where nothing came."""

    returned: str | None = None  # what came instead of a tensor of the right shape
    output_off: float = 0.0
    output_has_graph: bool = True
    # bytes alive between forward and backward, beyond the output and what the caller holds
    kept: int = 0
    plain_kept: int = 0  # by the same layers without any checkpoint
    # of the segment's input, in the dtype that it is to be kept in, and the further arguments
    input_bytes: int = 0
    runs_forward: tuple[int, ...] = ()  # of each layer, when forward has returned
    runs: tuple[int, ...] = ()  # when backward has
    input_off: float | None = 0.0
    others_off: float | None = 0.0
    missing: int = 0  # parameters without the gradient that they should have
    parameters: int = 0
    unwanted: int = 0  # frozen parameters that got one
    parameters_off: float = 0.0
    # forward drew other numbers than a plain run, or left the generator elsewhere
    random_changed: bool = False
    random_left: bool = False  # after backward the generator was not where it was before
    left: int = 0  # bytes alive after everything, beyond gradients
    # an output was still alive when nobody referred to it any more but itself
    in_a_cycle: bool = False


def run_cases(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """In the process of its own: each case once."""
    watch_threads()
    for number, case in enumerate(cases):
        begin_case(number, patience)
        saw(number, run(answer, case))


@dataclass
class Seen:
    """One run of the layers, by whomever: outputs, gradients, bytes, the generator's states."""

    outputs: list[Any]
    has_graph: bool
    kept: int
    runs_forward: tuple[int, ...]
    states: list[Tensor]  # after forward; before backward; after it
    left: int
    in_a_cycle: bool
    layers: nn.ModuleList
    feed: Feed


def run(answer: Any, case: Case) -> Facts:
    """One case: the answer against the same layers run plainly."""
    plain, came = plain_run(case), go(answer, case)
    facts = Facts(
        plain_kept=plain.kept,
        kept=came.kept,
        runs_forward=came.runs_forward,
        runs=tuple(layer.runs for layer in came.layers),
    )
    for output, want in zip(came.outputs, plain.outputs, strict=True):
        if not isinstance(output, Tensor) or output.shape != want.shape:
            facts.returned = told(output)
            return facts
        facts.output_off = max(facts.output_off, off(output, want))
    facts.output_has_graph = came.has_graph
    width = torch.float32 if case.keep_as is None else getattr(torch, case.keep_as)
    facts.input_bytes = sum(x.numel() * width.itemsize for x in came.feed.inputs)
    facts.input_off = _gradients_off(came.feed.inputs, plain.feed.inputs)
    facts.others_off = _gradients_off(
        *([x for x in feed.others if isinstance(x, Tensor)] for feed in (came.feed, plain.feed))
    )
    pairs = list(zip(came.layers.parameters(), plain.layers.parameters(), strict=True))
    facts.parameters = len(pairs)
    facts.missing = sum(mine.grad is None and right.grad is not None for mine, right in pairs)
    facts.unwanted = sum(mine.grad is not None and right.grad is None for mine, right in pairs)
    facts.parameters_off = max(
        (
            off(mine.grad, right.grad)
            for mine, right in pairs
            if None not in (mine.grad, right.grad)
        ),
        default=0.0,
    )
    facts.random_changed = not torch.equal(came.states[0], plain.states[0])
    facts.random_left = not torch.equal(came.states[2], came.states[1])
    facts.left, facts.in_a_cycle = came.left - plain.left, came.in_a_cycle
    return facts


def _gradients_off(came: list[Tensor], right: list[Tensor]) -> float | None:
    pairs = [
        (mine.grad, want.grad)
        for mine, want in zip(came, right, strict=True)
        if want.grad is not None
    ]
    return (
        None
        if any(mine is None for mine, _ in pairs)
        else max((off(*pair) for pair in pairs), default=0.0)
    )


@cache  # a launch may have many answers
def plain_run(case: Case) -> Seen:
    """The layers run plainly."""
    return go(_plainly, case, rounded=True)


def _plainly(layers: Sequence[nn.Module], keep_as: Any = None) -> Callable[..., Tensor]:
    def segment(x: Tensor, *others: Any) -> Tensor:
        for layer in layers:
            x = layer(x, *others)
        return x

    return segment


def go(answer: Any, case: Case, rounded: bool = False) -> Seen:
    """Make a segment of the case's layers with `answer`, run it forward and back; what it read is
    let go of in between.

    `rounded`: the gradients as they are when backward sees inputs that were kept as `keep_as`; the
    outputs are not touched.
    """
    layers, feed = case.layers(), case.feed()
    keep_as = None if case.keep_as is None else getattr(torch, case.keep_as)
    live = Watch()
    for layer in layers:
        layer.must_see = live.must_see
    live.follow(
        [
            *layers.parameters(),
            *feed.inputs,
            *(x for x in feed.others if isinstance(x, Tensor)),
            *feed.gradients,
        ]
    )
    with live:
        parts = (
            [layers[0], _as_module(answer(list(layers[1:]), keep_as))]
            if case.nested
            else list(layers)
        )
        segment = answer(parts, keep_as)
    torch.manual_seed(case.seed + 2)
    torch.rand(5)  # so that seeding again does not bring the state of the first run back
    begin, kept, in_a_cycle = live.now(), [], False
    for _ in range(2 if case.again else 1):
        before, outputs = live.now(), []
        with live:
            for x in feed.inputs:
                # a tensor that only the segment can keep alive
                outputs.append(segment(x + 0.0, *feed.others))
        kept.append(
            live.now()
            - before
            - sum(y.untyped_storage().nbytes() for y in outputs if isinstance(y, Tensor))
        )
        runs_forward, states = tuple(layer.runs for layer in layers), [torch.get_rng_state()]
        has_graph = all(isinstance(y, Tensor) and y.requires_grad for y in outputs)
        torch.rand(3)  # somebody else draws numbers in between
        states.append(torch.get_rng_state())
        shown = [y.detach() if isinstance(y, Tensor) else y for y in outputs]
        if has_graph and all(
            y.shape == g.shape for y, g in zip(outputs, feed.gradients, strict=True)
        ):
            with live:
                if rounded and keep_as is not None:
                    feed.inputs = [
                        x.detach().to(keep_as).float().requires_grad_(case.needs_gradient)
                        for x in feed.inputs
                    ]
                    outputs = [segment(x + 0.0, *feed.others) for x in feed.inputs]
                torch.autograd.backward(outputs, [g.clone() for g in feed.gradients])
        states.append(torch.get_rng_state())
        in_a_cycle |= _outlive(outputs)
    gradients = [
        x.grad
        for x in (*layers.parameters(), *feed.inputs, *feed.others)
        if isinstance(x, Tensor) and x.grad is not None
    ]
    left = live.now() - begin - sum(g.untyped_storage().nbytes() for g in gradients)
    return Seen(shown, has_graph, kept[0], runs_forward, states, left, in_a_cycle, layers, feed)


def _outlive(outputs: list[Any]) -> bool:
    """Let go of the outputs; whether one of them is still there before the garbage collector comes
    by."""
    gc.disable()
    try:
        left = [weakref.ref(y) for y in outputs if isinstance(y, Tensor)]
        outputs.clear()
        return any(y() is not None for y in left)
    finally:
        gc.enable()


class _Wrapped(nn.Module):
    """A segment inside a segment, whatever `answer` returns."""

    def __init__(self, segment: Callable[..., Tensor]) -> None:
        super().__init__()
        self.segment = segment

    def forward(self, x: Tensor, *others: Any) -> Tensor:
        return self.segment(x, *others)


def _as_module(segment: Any) -> nn.Module:
    return segment if isinstance(segment, nn.Module) else _Wrapped(segment)
