"""The parent's eye on a running process and all that descend from it: clock, memory, processes,
output."""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import signal
import threading
import time

from .limits import Ended, Limits
from .tree import usage

LOOK_S = 0.05


class Watch:
    """Watches from now on, in a thread of its own.

    pid:     a process that leads a session; whoever descends from it ends with it
    seen:    a descriptor of it (pidfd_open(2))
    output:  a pipe's end, from which is read what all of them print
    """

    def __init__(self, pid: int, seen: int, output: int, limits: Limits) -> None:
        self._pid, self._seen, self._output, self._limits = pid, seen, output, limits
        self._began, self._seconds = time.monotonic(), 0.0
        self._printed, self._reason = bytearray(), ""
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def join(self, within_s: float | None = None) -> None:
        """Until the process is gone, or so many seconds have passed."""
        self._thread.join(within_s)

    def end(self, reason: str) -> None:
        """End it, unless it has ended."""
        if self._thread.is_alive() and not _gone(self._seen):
            self._reason = self._reason or reason
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def ended(self) -> Ended:
        """What was seen of it once it is gone, but for its status; to be asked once."""
        self.join()
        os.close(self._seen)
        return Ended(self._reason or "done", None, self._seconds, bytes(self._printed))

    def _look(self) -> None:
        os.set_blocking(self._output, False)
        with selectors.DefaultSelector() as ready:
            ready.register(self._seen, selectors.EVENT_READ)
            ready.register(self._output, selectors.EVENT_READ)
            while not _gone(self._seen):
                heard = [key.fd for key, _ in ready.select(LOOK_S)]
                if self._output in heard and not self._hear():
                    ready.unregister(self._output)
                if reason := self._too_much():
                    self.end(reason)
        self._hear()
        self._seconds = time.monotonic() - self._began
        os.close(self._output)

    def _too_much(self) -> str:
        """The limit that is passed, if one is."""
        limits = self._limits
        used, processes = usage(self._pid, limits.memory_bytes)
        passed = {
            "wall_s": time.monotonic() - self._began > limits.wall_s,
            "memory_bytes": used > limits.memory_bytes,
            "processes": processes > limits.processes,
            "output_bytes": len(self._printed) >= limits.output_bytes,
        }
        return next((name for name, is_passed in passed.items() if is_passed), "")

    def _hear(self) -> bool:
        """Take what was printed, as much as may be; False at its end."""
        most = self._limits.output_bytes
        while len(self._printed) < most:
            try:
                said = os.read(self._output, 65536)
            except BlockingIOError:
                return True
            if not said:
                return False
            self._printed += said[: most - len(self._printed)]
        return True


def _gone(seen: int) -> bool:
    """Whether the process has ended (pidfd_open(2): its descriptor is readable then)."""
    return bool(select.select([seen], [], [], 0)[0])
