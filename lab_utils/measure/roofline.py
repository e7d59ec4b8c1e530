"""This machine's own roofline, from two measurements: how fast one core multiplies when everything
it needs is at hand, and how fast numbers come in from memory.

Williams, Waterman and Patterson 2009, "Roofline". One thread, and that thread's own seconds: while
another program has the core its clock stands still. The least of many calls, because others can
only make a call longer. Tensors are far below the last-level cache, or far above it: around its
size a measurement stands on a cliff.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

# where a thread's own clock ticks too slowly (Windows) the one on the wall has to do
_clock = (
    time.thread_time if time.get_clock_info("thread_time").resolution < 1e-6 else time.perf_counter
)
SIDE = 768  # of a square product, fp32: 7 MB in all
STREAM_BYTES = 128 * 2**20


class Roof(NamedTuple):
    """The two rates that bound every kernel: FLOP/s of arithmetic, bytes per second of memory."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """The intensity (FLOPs per byte) at which both take equally long."""
        return self.flops_per_second / self.bytes_per_second

    def at(self, intensity: float) -> float:
        """FLOP/s that a kernel of this intensity can reach at most."""
        return min(self.flops_per_second, intensity * self.bytes_per_second)


class Dot(NamedTuple):
    """One measured kernel: what it computed, what it must move once, how long it took (seconds)."""

    name: str
    flops: float
    nbytes: float
    seconds: float

    @property
    def intensity(self) -> float:
        """FLOPs for every byte."""
        return self.flops / self.nbytes

    @property
    def flops_per_second(self) -> float:
        """What it reached."""
        return self.flops / self.seconds


def fastest(call: Callable[[], Any], least: float = 0.2) -> float:
    """Seconds of this thread in the fastest of the calls that fit into `least` seconds, after two
    to warm up; on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        call()
        call()
        best, until = float("inf"), time.perf_counter() + least
        while time.perf_counter() < until:
            began = _clock()
            call()
            best = min(best, _clock() - began)
    finally:
        torch.set_num_threads(threads)
    return best


def measure_roof(least: float = 0.4) -> Roof:
    """The roof of one core: a product whose operands lie in the caches, a sum over numbers that do
    not."""
    square, result = torch.ones(SIDE, SIDE), torch.empty(SIDE, SIDE)
    stream = torch.ones(STREAM_BYTES // 4)
    return Roof(
        2 * SIDE**3 / fastest(lambda: torch.mm(square, square, out=result), least),
        stream.nbytes / fastest(stream.sum, least),
    )


def layer_dot(batch: int, inputs: int = 4096, outputs: int = 8192, least: float = 0.1) -> Dot:
    """A linear layer on `batch` rows, its weights (128 MiB by default) read from memory each
    time."""
    weight, x = torch.ones(inputs, outputs), torch.ones(batch, inputs)
    y = torch.empty(batch, outputs)
    seconds = fastest(lambda: torch.mm(x, weight, out=y), least)
    moved = weight.nbytes + x.nbytes + y.nbytes
    return Dot(str(batch), 2 * batch * inputs * outputs, moved, seconds)
