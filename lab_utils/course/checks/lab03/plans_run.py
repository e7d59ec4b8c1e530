"""Exercise 3 at work: a chain of real layers, what each costs by itself, and what a plan costs when
it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ....i18n import t
from ....measure.memory import SavedActivations
from ....parallel.recompute import checkpoint
from .alone import told

Plan = list[tuple[int, int]]
ROWS = 16


class Layer(NamedTuple):
    """What one layer costs, as it was measured by itself."""

    input_bytes: int  # of its input
    saved_bytes: int  # that it keeps for its backward pass, its input included
    flops: int  # of running it forward once


@dataclass(frozen=True)
class Model:
    """A chain of layers in fp32: `widths[i]` features come into layer i, `inner[i]` are inside it,
    the last width goes out."""

    widths: tuple[int, ...]
    inner: tuple[int, ...]
    seed: int = 0

    def layers(self) -> nn.ModuleList:
        """The layers with their first weights."""
        torch.manual_seed(self.seed)
        return nn.ModuleList(
            Link(a, i, b) for a, i, b in zip(self.widths, self.inner, self.widths[1:], strict=False)
        )


@dataclass(frozen=True)
class Case:
    """A model and a budget: so many bytes saved for backward at any moment. `criterion`: what the
    case is there to show."""

    model: Model
    budget: int
    criterion: str | None = None

    def __str__(self) -> str:
        return t(
            f"{len(self.model.inner)} layers, a budget of {self.budget:,} bytes",
            f"{len(self.model.inner)} 层，预算 {self.budget:,} 字节",
        )


class Link(nn.Module):
    """out(gelu(into(x))); counts its runs."""

    def __init__(self, into: int, inner: int, out: int) -> None:
        super().__init__()
        self.into, self.out, self.runs = (
            nn.Linear(into, inner, bias=False),
            nn.Linear(inner, out, bias=False),
            0,
        )

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        return self.out(F.gelu(self.into(x)))


@dataclass
class Cost:
    """A plan, carried out: bytes saved for backward when forward is over, at the most in the whole
    step; FLOPs of second runs."""

    plan: Plan
    forward_peak: int
    peak: int
    recomputed_flops: int


@dataclass
class Facts:
    """What an answer came to in one case. `malformed` says what is wrong with what it returned;
    `best` costs the fewest FLOPs that fit."""

    returned: str
    malformed: str | None
    gave_up: bool
    cost: Cost | None
    best: Cost | None
    least_peak: int  # of any plan
    keep_all: int  # bytes saved if nothing is recomputed


@cache
def costs(model: Model) -> tuple[Layer, ...]:
    """Each layer run by itself: bytes of live storages that it saved, and FLOPs as torch counts
    them."""
    x, found = torch.zeros(ROWS, model.widths[0]), []
    for layer in model.layers():
        x = x.detach().requires_grad_()
        with SavedActivations(layer) as saved, FlopCounterMode(display=False) as flops:
            y = layer(x)
        found.append(Layer(x.nbytes, saved.now, flops.get_total_flops()))
        x = y
    return tuple(found)


def carry_out(model: Model, plan: Plan) -> Cost:
    """A step of the real layers under `plan`, with the course's own checkpoint, and what it
    took."""
    layers, ends = model.layers(), dict(plan)
    per_layer, at = costs(model), 0
    with SavedActivations(layers) as saved:
        x = torch.zeros(ROWS, model.widths[0])
        while at < len(layers):
            end = ends.get(at)
            x = layers[at](x) if end is None else checkpoint(nn.Sequential(*layers[at:end]), x)
            at = at + 1 if end is None else end
        forward_peak = saved.peak
        x.backward(torch.ones_like(x))
    return Cost(
        plan,
        forward_peak,
        saved.peak,
        sum((layer.runs - 1) * cost.flops for layer, cost in zip(layers, per_layer, strict=True)),
    )


def every_plan(begin: int, end: int) -> Iterator[Plan]:
    """All ways to deal with layers begin to end − 1: each kept, or in a segment with its
    neighbours."""
    if begin == end:
        yield []
        return
    yield from every_plan(begin + 1, end)
    for cut in range(begin + 1, end + 1):
        yield from ([(begin, cut), *rest] for rest in every_plan(cut, end))


def expected_peak(layers: Sequence[Layer], plan: Plan) -> int:
    """Bytes saved for backward, at the most. Tests hold this against `carry_out` for every plan; no
    verdict rests on it alone."""
    ends, at, held, most = dict(plan), 0, 0, 0
    while at < len(layers):
        end = ends.get(at, at + 1)
        whole = sum(layer.saved_bytes for layer in layers[at:end])
        most = max(most, held + whole)
        held, at = held + (layers[at].input_bytes if at in ends else whole), end
    return most


@cache
def frontier(model: Model) -> tuple[tuple[int, int, Plan], ...]:
    """(peak, recomputed FLOPs, plan) of each plan to which no other is as good in one and better in
    the other; peaks rise."""
    layers = costs(model)
    plans = [
        (expected_peak(layers, plan), sum(sum(x.flops for x in layers[a:b]) for a, b in plan), plan)
        for plan in every_plan(0, len(layers))
    ]
    found: list[tuple[int, int, Plan]] = []
    for entry in sorted(plans):
        if not found or entry[1] < found[-1][1]:
            found.append(entry)
    return tuple(found)


@cache
def best(case: Case) -> Cost | None:
    """The plan with the fewest FLOPs that fits, carried out; None if none fits."""
    fitting = [entry for entry in frontier(case.model) if entry[0] <= case.budget]
    return carry_out(case.model, fitting[-1][2]) if fitting else None


def malformed(returned: Any, n: int) -> str | None:
    """What is wrong with the form of a plan for n layers; None if nothing is."""
    if not isinstance(returned, list | tuple):
        return t("it is no list", "不是列表")
    at = 0
    for pair in returned:
        if not (
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(isinstance(x, Integral) and not isinstance(x, bool) for x in pair)
        ):
            return t(
                f"{told(pair)} is no pair (begin, end) of whole numbers",
                f"{told(pair)} 不是整数对 (begin, end)",
            )
        begin, end = pair
        if not at <= begin < end <= n:
            return t(
                f"({begin}, {end}) is empty, overlaps, is out of order or goes beyond layer"
                f" {n - 1}",
                f"({begin}, {end}) 为空、有重叠、次序不对，或者超出了第 {n - 1} 层",
            )
        at = end
    return None


def ask(answer: Callable[[list[Layer], int], Any], case: Case) -> Facts:
    """The answer's plan, carried out if it is one."""
    layers = costs(case.model)
    returned = answer(list(layers), case.budget)
    wrong = None if returned is None else malformed(returned, len(layers))
    plan = (
        None if returned is None or wrong else [(int(begin), int(end)) for begin, end in returned]
    )
    return Facts(
        told(returned),
        wrong,
        returned is None,
        None if plan is None else carry_out(case.model, plan),
        best(case),
        frontier(case.model)[0][0],
        sum(layer.saved_bytes for layer in layers),
    )
