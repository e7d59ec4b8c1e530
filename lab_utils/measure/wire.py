"""Bytes on the wire as the operating system counts them: the loopback interface, over which ranks
on one machine talk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..parallel.comm import Axis

_COUNTERS = Path("/proc/net/dev")


def loopback_bytes() -> int | None:
    """Bytes sent over `lo` since the machine started, packet headers included; None where the
    system does not tell."""
    if not _COUNTERS.exists():
        return None
    for line in _COUNTERS.read_text().splitlines():
        name, _, fields = line.partition(":")
        if name.strip() == "lo":
            return int(fields.split()[8])
    return None


def sent_per_rank(work: Callable[[], Any], axis: Axis, times: int = 5) -> tuple[Any, float | None]:
    """Do `work` on every rank of `axis`: its result, and the bytes that one rank sent through
    loopback for it, the mean over the ranks; None where the system does not tell.

    Other programs use the interface too, and can only add to it: the least of `times` is ours.
    """

    def meet() -> None:
        axis.all_reduce(torch.zeros(1), purpose="control").wait()

    counts, result = [], None
    for _ in range(times):
        before = loopback_bytes()
        meet()  # nobody starts before all have looked
        result = work()
        meet()
        after = loopback_bytes()
        counts.append(None if before is None or after is None else (after - before) / axis.size)
    return result, None if None in counts else min(counts)
