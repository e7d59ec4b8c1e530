"""The parent's eye on a running process and all that descend from it: clock, memory, processes,
output."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from typing import IO

from .limits import Ended, Limits
from .tree import usage

LOOK_S = 0.05


class Watch:
    """Watches from now on, in a thread of its own; `process` leads a session, and whoever descends
    from it ends with it."""

    def __init__(self, process: subprocess.Popen[bytes], limits: Limits) -> None:
        self.process, self.limits = process, limits
        self._began, self._seconds, self._peak_bytes = time.monotonic(), 0.0, 0
        self._printed, self._reason = bytearray(), ""
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Until the process is gone."""
        self._thread.join()

    def end(self, reason: str) -> Ended:
        """End it, unless it has ended; what was seen of it."""
        self._end(reason)
        self.join()
        status = self.process.wait()
        status = status if status < 128 else 128 - status
        return Ended(
            self._reason or "done",
            None if self._reason else status,
            self._seconds,
            self._peak_bytes,
            bytes(self._printed),
        )

    def _end(self, reason: str) -> None:
        if self.process.poll() is None:
            self._reason = self._reason or reason
            os.killpg(self.process.pid, signal.SIGKILL)

    def _look(self) -> None:
        output = self.process.stdout
        os.set_blocking(output.fileno(), False)
        with selectors.DefaultSelector() as ready:
            ready.register(output, selectors.EVENT_READ)
            while self.process.poll() is None:
                if not ready.get_map():
                    time.sleep(LOOK_S)
                elif ready.select(LOOK_S) and not self._hear(output):
                    ready.unregister(output)
                if reason := self._too_much():
                    self._end(reason)
            self._hear(output)
        self._seconds = time.monotonic() - self._began
        output.close()

    def _too_much(self) -> str:
        """The limit that is passed, if one is."""
        used, processes = usage(self.process.pid)
        self._peak_bytes = max(self._peak_bytes, used)
        limits = self.limits
        passed = {
            "wall_s": time.monotonic() - self._began > limits.wall_s,
            "memory_bytes": used > limits.memory_bytes,
            "processes": processes > limits.processes,
            "output_bytes": len(self._printed) >= limits.output_bytes,
        }
        return next((name for name, is_passed in passed.items() if is_passed), "")

    def _hear(self, output: IO[bytes]) -> bool:
        """Take what was printed, as much as may be; False at its end."""
        while said := output.read(65536):
            self._printed += said[: self.limits.output_bytes - len(self._printed)]
            if len(self._printed) >= self.limits.output_bytes:
                return True
        return said is None
