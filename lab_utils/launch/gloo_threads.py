"""gloo's own threads, which let go of a call's tensors a moment after the call has returned."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path


def let_gloo_rest(seconds: float = 2.0) -> None:
    """Return when no thread of gloo is at work, or after `seconds`.

    To let go of a tensor such a thread needs the interpreter. Until it has had it, the tensor
    counts as alive; and if the interpreter is gone by then, the process dies with SIGABRT. (Seen in
    every fourth run on a machine with eight times more to do than it has cores.)
    """
    deadline = time.monotonic() + seconds
    while True:
        time.sleep(0.001)  # who waits for the interpreter gets it now
        if not _at_work() or time.monotonic() >= deadline:
            return


def _at_work() -> bool:
    """Whether a thread of gloo runs, or would if a core were free; False where the system does not
    tell (outside Linux)."""
    for path in Path("/proc/self/task").glob("*/stat"):
        with suppress(OSError):  # it has just ended
            name, state = path.read_text().rsplit(") ", 1)
            if "gloo" in name and state[0] == "R":
                return True
    return False
