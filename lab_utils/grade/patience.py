"""How long a rank may take, by what the kernel says that it does and not by a clock: on a machine
with much to do a right answer is slow, and as right as ever.

A rank that computes uses up its seconds of a core, however long it takes to get them. One that
sleeps and is waited for uses up those of sleep. One that would go on if a core or a disk were free
uses up nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from ..i18n import t
from .tree import activity

LOOK_S = 0.1
ASLEEP_S = 5.0  # nothing in a right answer sleeps
WALL_S = 1800.0  # in case that the kernel's words can be turned: nobody computes, nobody sleeps


class Patience:
    """With the trees of processes under `pids`: each may use `cpu_s` seconds of a core, and sleep
    for `asleep_s`."""

    def __init__(self, pids: Sequence[int], cpu_s: float, asleep_s: float = ASLEEP_S) -> None:
        self._pids, self._cpu_s, self._asleep_s = pids, cpu_s, asleep_s
        self._began = [activity(pid)[0] for pid in pids]
        self._used = [0.0] * len(pids)
        self._asleep = [0.0] * len(pids)
        self._until = time.monotonic() + WALL_S
        self._looked = time.monotonic()

    @property
    def until(self) -> float:
        """When it ends for all, by time.monotonic()."""
        return self._until

    def used(self, number: int) -> float:
        """Seconds of a core, as of the last look."""
        return self._used[number]

    def gone(self, numbers: Iterable[int], quiet: bool) -> tuple[int, str] | None:
        """Look, if it is time to: whose patience is at its end, and why.

        quiet: nobody has said a word since the last look
        """
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return None
        # what we slept through ourselves is not on them
        passed, self._looked = min(now - self._looked, 2 * LOOK_S), now
        for number in numbers:
            total, awake = activity(self._pids[number])
            used = total - self._began[number]
            if quiet and not awake and used == self._used[number]:
                self._asleep[number] += passed
            self._used[number] = used
            if used > self._cpu_s:
                words = t(
                    f"after {self._cpu_s:g} s of computing it was still running",
                    f"计算了 {self._cpu_s:g} 秒仍未结束",
                )
                return number, words
            if self._asleep[number] > self._asleep_s:
                slept = self._asleep_s
                if len(self._pids) == 1:
                    return number, t(f"it slept for {slept:g} s", f"睡了 {slept:g} 秒")
                words = t(
                    f"it slept for {slept:g} s while others waited for it",
                    f"睡了 {slept:g} 秒，别人一直在等它",
                )
                return number, words
            if now > self._until:
                return number, t(
                    f"after {WALL_S:g} s it had come to no end", f"{WALL_S:g} 秒后仍未结束"
                )
        return None
