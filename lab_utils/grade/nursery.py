"""Where rooms come from: one process beside the grader that has loaded torch and knows nothing, and
forks a copy of itself for each of them. So a room opens in milliseconds, and all rooms share the
memory that torch takes."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROGRAM = "lab_utils.grade.inside.nursery"
PACKAGE = Path(__file__).parents[1]
START_S = 600.0  # torch is loaded in it, from a disk that may be slow
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "PYTHONPATH": str(PACKAGE.parent),
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    # large tensors go back to the system when they are freed, so that memory is what is alive
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_ARENA_MAX": "1",
}


class RoomError(RuntimeError):
    """A room could not be furnished."""


class Nursery:
    """The process. It ends when the grader does."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-s", "-m", PROGRAM],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=ENVIRONMENT | {"LAB_LINE": str(theirs.fileno())},
            )
        self._line.settimeout(START_S)
        if not self._line.recv(1):
            words = self._process.communicate()[0].decode(errors="replace").strip()
            raise RoomError(words or "torch could not be loaded")

    def begin(self, room: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[int, int]:
        """A new room's outermost process: its pid, and a descriptor of it (pidfd_open(2)). It has
        got `descriptors`. Raises RoomError, OSError when the nursery is gone."""
        socket.send_fds(self._line, [json.dumps(room).encode()], descriptors)
        said, found, _, _ = socket.recv_fds(self._line, 4096, 1)
        if not said:
            raise ConnectionError("the nursery has ended")
        if not found:
            raise RoomError(said.decode())
        return int(said), found[0]

    def close(self) -> None:
        """End it."""
        self._line.close()
        self._process.kill()
        self._process.communicate()


@functools.cache
def _nursery(pid: int) -> Nursery:
    return Nursery()


def begin(room: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[int, int]:
    """By this process's own nursery; another one takes the place of one that was ended."""
    with contextlib.suppress(OSError):
        return _nursery(os.getpid()).begin(room, descriptors)
    _nursery.cache_clear()
    return _nursery(os.getpid()).begin(room, descriptors)


def end() -> None:
    """End this process's nursery; the next room begins another."""
    if _nursery.cache_info().currsize:
        _nursery(os.getpid()).close()
        _nursery.cache_clear()
