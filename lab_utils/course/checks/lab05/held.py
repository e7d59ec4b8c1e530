"""A wire that is held while the backward pass works: whoever waits for it there stands still.

An all-reduce handed over in the backward pass leaves only when the pass is over, so that its result
cannot be had before, in whatever way somebody asks for it. An open call to wait lets the wire go at
once and is noted; other ways (asking again and again, looking at the buffer, sleeping) show
because nothing else goes on for STILL_S: then the wire is let go, too, and that is noted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ....parallel.comm import REDUCTIONS, Axis, Pending
from ..watched import WatchedAxis

STILL_S = 1.0  # between two gradients; it takes microseconds


class Departure:
    """One all-reduce, and its Work to whoever asks. Times are seconds; never is infinity."""

    def __init__(self, axis: HeldAxis, tensor: Tensor, reduction: str) -> None:
        self.content = tensor.detach().clone().flatten()  # as it was handed over
        self.issued, self.waited = time.perf_counter(), inf
        self._axis, self._tensor, self._reduction = axis, tensor, reduction
        self._sum = self.content.clone()
        self._work: dist.Work | None = None
        self._future = _Future(self)

    def leave(self) -> None:
        """Go out, unless it has."""
        if self._work is None:
            reduction = REDUCTIONS[self._reduction]
            self._work = dist.all_reduce(
                self._sum, reduction, group=self._axis.group, async_op=True
            )

    def arrive(self, wait: bool) -> None:
        """Put the result where it belongs, if it is here or `wait`."""
        if self._future.done() or self._work is None:
            return
        if wait or self._work.is_completed():
            self._work.wait()
            with torch.no_grad():
                self._tensor.copy_(self._sum.view_as(self._tensor))
            self._future.set_result([self._tensor])

    def wait(self, *_: Any) -> bool:
        """Block until the result may be used."""
        self.waited = min(self.waited, time.perf_counter())
        self._axis.release()
        with self._axis.lock:
            self.arrive(wait=True)
        return True

    synchronize = wait

    def get_future(self) -> torch.futures.Future:
        """As a Work's."""
        return self._future

    def is_completed(self) -> bool:
        """Whether the result is here; asking is not waiting."""
        return self._future.done()


class _Future(torch.futures.Future):
    def __init__(self, departure: Departure) -> None:
        super().__init__()
        self._departure = departure

    def wait(self) -> Any:
        self._departure.wait()
        return super().wait()


class HeldAxis(WatchedAxis):
    """An axis that does nothing but all-reduce, on a held wire. `marks`: when each gradient came to
    be, and its name."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis, ["all_reduce"], "buckets.only-axis")
        self.lock = threading.RLock()
        self.departures: list[Departure] = []
        self.marks: list[tuple[float, str]] = []
        self.stood_still = inf
        self._held, self._moved = False, 0.0

    def begin(self) -> None:
        """Another step."""
        super().begin()
        self.departures, self.marks, self.stood_still = [], [], inf

    def mark(self, name: str) -> None:
        """A gradient exists from now on."""
        self._moved = time.perf_counter()
        self.marks.append((self._moved, name))

    def all_reduce(
        self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = ""
    ) -> Pending:
        call = self._open("all_reduce", purpose, tensor, label)
        with self.lock:
            departure = Departure(self, tensor, reduction)
            self._moved = departure.issued
            self.departures.append(departure)
            if not self._held:
                departure.leave()
        return Pending(call, (departure,))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the wire until `release`; somebody looks after it to the end of the block."""
        self._held, self._moved = True, time.perf_counter()
        ended = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(ended,), daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()

    def release(self) -> None:
        """Let everything go that was handed over, in its order, and whatever comes from now on."""
        with self.lock:
            self._held = False
            for departure in self.departures:
                departure.leave()

    def _keep(self, ended: threading.Event) -> None:
        while not ended.wait(0.005):
            now = time.perf_counter()
            if self._held and self.departures and now - self._moved > STILL_S:
                self.stood_still = now
                self.release()
            with self.lock:
                for departure in self.departures:
                    departure.arrive(wait=False)
