"""Traffic of one step, summed up from the ledger of what was really handed to collectives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..layout.wire import wire_bytes
from ..parallel.comm import Axis
from ..parallel.ledger import Call, Ledger
from ..report import Traffic


def summarize(calls: Iterable[Call], sizes: dict[str, int]) -> tuple[Traffic, ...]:
    """One entry per (op, axis, purpose), in the order of first use; `sizes` gives each axis's number of ranks.

    The payload is counted; wire bytes are the ring's share of it (a library's sends cannot be seen from here, the test
    against the loopback interface holds them), taken of the sum, so that rounding to whole bytes happens once.
    """
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        groups.setdefault((call.op, call.axis, call.purpose), []).append(call)
    return tuple(
        Traffic(*key, calls=len(group), bytes=sum(c.bytes for c in group), wire_bytes=wire_bytes(key[0], sum(c.bytes for c in group), sizes[key[1]]))
        for key, group in groups.items()
    )


class OutsideCounter(TorchDispatchMode):
    """Counts the all-reduces of a library that calls torch.distributed itself (DDP), from outside, into `ledger`."""

    def __init__(self, ledger: Ledger, axis: Axis) -> None:
        super().__init__()
        self.ledger, self.axis = ledger, axis

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func is torch.ops.c10d.allreduce_.default:
            payload = sum(x.numel() * x.element_size() for x in args[0])
            self.ledger.open("all_reduce", self.axis.name, "gradient", payload, wire_bytes("all_reduce", payload, self.axis.size))
        return func(*args, **(kwargs or {}))
