"""A busy machine told from a broken program.

A test that measures seconds hands its verdict to `on_time`. Where it does not hold, conftest asks
what other programs took of the cores meanwhile. Nothing: the program is too slow, and the test
fails. Something: the test waits for a quiet moment and is run again; where none comes, it is not
judged and says so (skipped as *busy*, with the figures). With CI set, every test is judged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import psutil
import pytest

# of one core: what a desktop takes that does nothing
QUIET = 0.15
ATTEMPTS = 3
PATIENCE_S = 20.0  # of one wait
_patience_left_s = 120.0  # of all waits of a run: a machine that is busy all day is not waited for


class Untimely(AssertionError):
    """Something took too long: the program's fault, or that of others on the machine."""


def on_time(holds: bool, said: str) -> None:
    """Raise Untimely with these words unless it holds; for verdicts that rest on a clock."""
    if not holds:
        raise Untimely(said)


class Others:
    """What programs outside of this process and its descendants take of the cores, from now on.

    Processor time from the system's own counters, less that of the living family and of the dead
    that the family has waited for. What a virtual machine's host takes away counts as others', too.
    """

    def __init__(self) -> None:
        self._begun, self._busy, self._ours = time.monotonic(), _busy_seconds(), family_seconds()

    def cores(self) -> float:
        """Cores in use by others, on average since the beginning; 1.0 is one core all the time."""
        seconds = max(time.monotonic() - self._begun, 0.01)
        taken = (_busy_seconds() - self._busy) - (family_seconds() - self._ours)
        return max(taken, 0.0) / seconds


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - _counted_twice(times)


def _counted_twice(times: object) -> float:
    # Linux counts a guest's seconds under user and nice as well
    return getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)


def family_seconds() -> float:
    """Processor seconds of this process, its living descendants, and the dead whom those have
    waited for."""
    root, seconds = psutil.Process(), 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            seconds += sum(process.cpu_times()[:4])  # its own, and of children that it waited for
        except psutil.NoSuchProcess:
            continue
    return seconds


def judge(attempt: Callable[[], None]) -> None:
    """Run a test until it is on time or may be judged. Raises Untimely where it is too slow on a
    quiet machine, skips where the machine never was."""
    for left in reversed(range(ATTEMPTS)):
        others = Others()
        try:
            return attempt()
        except Untimely as late:
            cores, load = others.cores(), os.getloadavg()[0]
            if cores <= QUIET:
                raise
            if not left:
                if os.environ.get("CI"):
                    raise
                pytest.skip(
                    f"busy: {late}, while other programs used {cores:.1f} of {os.cpu_count()} cores"
                    f" (load {load:.1f}); not judged"
                )
        _wait_for_quiet()
    return None


def _wait_for_quiet() -> None:
    """Return when others have left the cores alone for half a second, or patience ends."""
    global _patience_left_s
    begun = time.monotonic()
    until = begun + min(PATIENCE_S, _patience_left_s)
    while time.monotonic() < until:
        others = Others()
        time.sleep(0.5)
        if others.cores() <= QUIET:
            break
    _patience_left_s -= time.monotonic() - begun
