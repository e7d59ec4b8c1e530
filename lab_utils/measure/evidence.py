"""Evidence about one slow step: the clock undisturbed, then the same step again with everything
counted that it calls, computes, moves and waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ..parallel.ledger import Ledger


class Evidence(NamedTuple):
    """One step. Seconds: of the whole, waited for data, waited for the wire, and in which the wire
    was busy at all. Counts: kernels called, FLOPs, bytes read and written."""

    step: float
    waited_for_data: float
    waited_for_wire: float
    wire_busy: float
    calls: int
    flops: float
    nbytes: float


class Machine(NamedTuple):
    """What it needs for one call (seconds), and its two rates."""

    call_seconds: float
    flops_per_second: float
    bytes_per_second: float


class _Counted(TorchDispatchMode):
    """Kernels called, and the bytes of the tensors that they take and give, each once a call; views
    move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.nbytes = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.calls += 1
            tensors = [x for x in tree_leaves((args, kwargs, found)) if isinstance(x, Tensor)]
            self.nbytes += sum(x.nbytes for x in tensors)
        return found


def look(
    step: Callable[[Any], Any], batches: Iterator[Any] | None = None, ledger: Ledger | None = None
) -> Evidence:
    """What `step(batch)` is seen to do: once to warm up, once by the clock, once counted.

    `batches`: where its data come from (None: it gets None); three are taken. `ledger`: of the axis
    that it sends along; it is cleared.
    """
    data = batches if batches is not None else iter([None] * 3)
    step(next(data))
    if ledger is not None:
        ledger.clear()
    began = time.perf_counter()
    batch = next(data)
    came = time.perf_counter()
    step(batch)
    ended = time.perf_counter()
    waited, busy = 0.0, 0.0
    if ledger is not None:
        waited, busy = ledger.exposed_seconds(), ledger.exposed_seconds() + ledger.hidden_seconds()
    batch = next(data)
    with FlopCounterMode(display=False) as computed, _Counted() as counted:
        step(batch)
    return Evidence(
        step=ended - began,
        waited_for_data=came - began if batches is not None else 0.0,
        waited_for_wire=waited,
        wire_busy=busy,
        calls=counted.calls,
        flops=computed.get_total_flops(),
        nbytes=counted.nbytes,
    )


def machine_here() -> Machine:
    """One core of this machine: what a call costs, and the two rates of its roof."""
    from .roofline import fastest, measure_roof

    little = torch.ones(8)
    return Machine(fastest(lambda: little.mul_(1.0), 0.05), *measure_roof(0.2))
