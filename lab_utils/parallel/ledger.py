"""The ledger: every collective that a rank took part in, with its bytes and its times, as it
happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Call:
    """One collective or message. Times are seconds of `time.perf_counter`; None: has not happened
    (yet)."""

    op: str
    axis: str
    purpose: str
    bytes: int
    wire_bytes: int
    label: str
    issued: float
    finished: float | None = None  # the last byte is here
    wait_began: float | None = None  # the rank can go no further without it
    wait_ended: float | None = None
    # wire_bytes were added up message by message, as they were sent
    messages_counted: bool = False

    @property
    def exposed_seconds(self) -> float:
        """Seconds in which the rank stood still for it."""
        return (
            0.0
            if self.wait_began is None or self.wait_ended is None
            else self.wait_ended - self.wait_began
        )


@dataclass
class Ledger:
    """What one rank communicated since `clear`. `marks` are moments worth a line in a trace:
    (seconds, kind, name).

    `idle_seconds`: waited for what another pipeline stage had to send. `observer(what, tensor,
    held)`, where an instrument has put one, is told when the engine begins and ceases to hold a
    tensor that autograd does not know of.
    """

    calls: list[Call] = field(default_factory=list)
    marks: list[tuple[float, str, str]] = field(default_factory=list)
    idle_seconds: float = 0.0
    observer: Callable[[str, Any, bool], None] | None = None

    def hold(self, what: str, tensor: Any) -> None:
        """From now on `tensor` is kept, as part of `what` ("activations", "gathered")."""
        if self.observer is not None:
            self.observer(what, tensor, True)

    def release(self, what: str, tensor: Any) -> None:
        """It is kept no longer; call this while its storage is still there."""
        if self.observer is not None:
            self.observer(what, tensor, False)

    def open(
        self, op: str, axis: str, purpose: str, payload_bytes: int, wire_bytes: int, label: str = ""
    ) -> Call:
        """Enter a call at the moment it is issued."""
        call = Call(op, axis, purpose, payload_bytes, wire_bytes, label, time.perf_counter())
        self.calls.append(call)
        return call

    def mark(self, kind: str, name: str) -> None:
        """Note that something (a gradient, the end of a forward pass) exists from now on."""
        self.marks.append((time.perf_counter(), kind, name))

    def exposed_seconds(self) -> float:
        """Seconds in which the rank stood still for communication."""
        return sum(call.exposed_seconds for call in self.calls)

    def hidden_seconds(self) -> float:
        """Seconds in which something was under way while the rank did something else; overlapping
        calls count once."""
        under_way = sorted(
            (c.issued, min(c.finished, c.wait_began))
            for c in self.calls
            if c.finished is not None and c.wait_began is not None
        )
        total, reached = 0.0, float("-inf")
        for began, ended in under_way:
            total += max(0.0, ended - max(began, reached))
            reached = max(reached, ended)
        return total

    def clear(self) -> None:
        """Begin a new step."""
        self.calls.clear()
        self.marks.clear()
        self.idle_seconds = 0.0

    def trace(self) -> list[tuple[float, str, str]]:
        """Marks and calls as one list of (seconds, kind, name) in time order; calls give "issue",
        "wait", "done"."""
        events = list(self.marks)
        for call in self.calls:
            name = call.label or call.op
            events += [
                (at, kind, name)
                for at, kind in (
                    (call.issued, "issue"),
                    (call.wait_began, "wait"),
                    (call.wait_ended, "done"),
                )
                if at is not None
            ]
        return sorted(events, key=lambda event: event[0])
