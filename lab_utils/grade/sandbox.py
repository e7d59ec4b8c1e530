"""A submission's room, from outside: started, watched, ended.

A program in the room sees the paths that it may read, its own /tmp, no other process, no network
but its own; all it has to say comes through one pipe. The parent holds the clock, looks at memory
and processes (watch.py), and ends the room by ending its first process, which takes every other
with it (pid_namespaces(7)). On a machine that does not give a protection the run goes on without,
and `Room.missing` says what and why: the mark is advisory then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from .frames import Frame, read_frame, write_frame
from .limits import Ended, Limits
from .watch import Watch

ENTER = Path(__file__).with_name("enter.py")
THREADS = 512  # processes and threads of one user: where a fork without end stops by itself
FIRST_UID = 61_000  # no such users exist; each of the rooms that are open at once has its own
SPACES = ("mount", "pid", "net", "ipc", "name")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")


class RoomError(RuntimeError):
    """The room could not be furnished, or its program spoke in no known way."""


class Room:
    """A running program; `with Room(argv, …) as room`. It reads and writes frames (frames.py) on
    descriptors LAB_IN and LAB_OUT of its environment.

    argv:      the program, by absolute path
    readable:  paths that it may read, besides the system's and this Python's
    hidden:    directories below them that are empty for it
    number:    of this among the rooms that are open at the same time
    as_root:   False: as without root's rights; None: as they are
    """

    def __init__(
        self,
        argv: Sequence[str],
        limits: Limits,
        readable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        number: int = 0,
        as_root: bool | None = None,
    ) -> None:
        self.limits, self.missing, self.ended = limits, dict[str, str](), None
        self._root = tempfile.mkdtemp(prefix="lab-room-")
        as_root = os.getuid() == 0 if as_root is None else as_root
        inbox, self.to_program = os.pipe()
        self.from_program, outbox = os.pipe()
        self._report, report = os.pipe()
        theirs = (inbox, outbox, report)
        room = dict(
            root=self._root,
            argv=list(argv),
            spaces=[*SPACES] if as_root else ["user", *SPACES],
            uid=FIRST_UID + number if as_root else None,
            readable=_outermost([*SYSTEM, *python_paths(), *map(str, readable)]),
            hidden=[str(path) for path in hidden],
            disk_bytes=limits.disk_bytes,
            threads=THREADS,
            report=report,
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": "/tmp",
                "LAB_IN": str(inbox),
                "LAB_OUT": str(outbox),
                **(environment or {}),
            },
        )
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTER), json.dumps(room)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=theirs,
            start_new_session=True,
            env={},
        )
        for descriptor in theirs:
            os.close(descriptor)
        self._watch = Watch(process, limits)

    def __enter__(self) -> Room:
        with os.fdopen(self._report, "rb") as report:
            said = report.read()
        if not said:
            words = self.close().printed.decode(errors="replace").strip()
            raise RoomError(words or "the room could not be made")
        self.missing = json.loads(said)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, frame: Frame, within_s: float) -> Frame:
        """Send a frame, wait for the answer. Raises TimeoutError after `within_s` seconds,
        EOFError when the program has ended or was ended, FrameError for what is no frame."""
        until = time.monotonic() + within_s
        try:
            write_frame(self.to_program, frame, until)
            return read_frame(self.from_program, until)
        except BrokenPipeError:
            raise EOFError("the program has ended") from None

    @property
    def pid(self) -> int:
        """The process under which all others of the room are."""
        return self._watch.process.pid

    def wait(self) -> Ended:
        """Until the program ends by itself, or a limit ends it."""
        self._watch.join()
        return self.close()

    def close(self) -> Ended:
        """End all that is left in the room; how it ended, always the same answer."""
        if self.ended is None:
            self.ended = self._watch.end("closed")
            self.ended.missing = self.missing
            for descriptor in (self.to_program, self.from_program):
                os.close(descriptor)
            shutil.rmtree(self._root, ignore_errors=True)
        return self.ended


def python_paths() -> list[str]:
    """Where this Python and its packages live."""
    return [sys.base_prefix, sys.prefix, *(p for p in sys.path if p.endswith("-packages"))]


def _outermost(paths: Sequence[str]) -> list[str]:
    """Without those that lie in another of them."""
    real = list(dict.fromkeys(paths))
    return [p for p in real if not any(p != q and p.startswith(q.rstrip("/") + "/") for q in real)]
