"""Communication under way: what a collective or a message gives back before its result is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .ledger import Call, Ledger


class Pending:
    """A collective under way; `wait()` returns when its result is there. Waiting twice is
    harmless."""

    def __init__(self, call: Call | None = None, works: tuple[Any, ...] = ()) -> None:
        self._call, self._works = call, works
        # a message cannot be asked when it was through
        if call is not None and works and not call.messages_counted:
            works[-1].get_future().then(lambda _: self._arrived(time.perf_counter()))

    def _arrived(self, at: float) -> None:
        # this may come, on another thread, after wait() has returned
        if self._call.finished is None:
            self._call.finished = at

    def wait(self) -> None:
        """Block until the result may be used."""
        if self._call is None or self._call.wait_ended is not None:
            return
        self._call.wait_began = time.perf_counter()
        self._block()
        ended = time.perf_counter()
        self._arrived(ended)
        self._call.wait_ended = ended

    def _block(self) -> None:
        for work in self._works:
            work.wait()


class Ring(Pending):
    """A ring under way: its first message is out, the others follow when it is waited for."""

    def __init__(self, call: Call, hops: Iterator[None]) -> None:
        super().__init__(call)
        self._hops = hops
        next(hops)  # sends the first message; of three ranks on, the others wait for us

    def _block(self) -> None:
        for _ in self._hops:
            pass


class Arrival(Pending):
    """A message awaited from another pipeline stage: the time that it takes is the ledger's
    `idle_seconds`."""

    def __init__(self, work: Any, ledger: Ledger) -> None:
        super().__init__()
        self._work, self._ledger = work, ledger

    def wait(self) -> None:
        """Block until it is here."""
        began = time.perf_counter()
        self._work.wait()
        self._ledger.idle_seconds += time.perf_counter() - began
