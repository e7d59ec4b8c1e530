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
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from . import nursery
from .frames import Frame, read_frame, write_frame
from .group import Group, groups, sweep
from .limits import Ended, Limits
from .nursery import RoomError
from .watch import Watch

# no such users exist; the kernel limits processes by user, so rooms share none, whoever's they are
UIDS, ROOMS = range(61_000, 65_000), 8
FOLDERS = "lab-room-"
SPACES = ("mount", "pid", "net", "ipc", "name")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")


class Room:
    """A running program; `with Room(limits, …) as room`. It reads and writes frames (frames.py) on
    a socket, whose other end is `line`.

    readable:  paths that it may read, besides the system's and this Python's
    hidden:    directories below them that are empty for it
    number:    of this among the rooms that this process has open, up to 7
    as_root:   False: as without root's rights; None: as they are
    argv:      another program than the worker, by absolute path; its environment names the socket
               as LAB_LINE
    """

    def __init__(
        self,
        limits: Limits,
        readable: Sequence[Path] = (),
        hidden: Sequence[Path] = (),
        number: int = 0,
        as_root: bool | None = None,
        argv: Sequence[str] = (),
    ) -> None:
        self.limits, self.missing, self.ended = limits, dict[str, str](), None
        self._root = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        self.group = Group(Path(self._root).name, limits.processes + limits.threads)
        as_root = os.getuid() == 0 if as_root is None else as_root
        self.line, end = socket.socketpair()
        output, printed = os.pipe()
        told, report = os.pipe()
        self._report = os.fdopen(told)
        room = dict(
            root=self._root,
            argv=list(argv),
            spaces=[*SPACES] if as_root else ["user", *SPACES],
            uid=_uid(number) if as_root else None,
            readable=_readable([*SYSTEM, *python_paths(), *map(str, readable)]),
            hidden=[str(path) for path in hidden],
            disk_bytes=limits.disk_bytes,
            threads=limits.processes + limits.threads,
            doors=self.group.doors,
        )
        theirs = (printed, end.detach(), report)
        try:
            self.pid, seen = nursery.begin(room, theirs)
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        self._watch = Watch(self.pid, seen, output, limits)

    def __enter__(self) -> Room:
        said = self._report.readline()
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
        write_frame(self.line.fileno(), frame, until)
        return read_frame(self.line.fileno(), until)

    def wait(self, within_s: float | None = None) -> Ended:
        """Until the program ends by itself, or a limit ends it, or so many seconds have passed."""
        self._watch.join(within_s)
        return self.close()

    def end(self) -> None:
        """End all that is left in the room, and do not wait for it."""
        self._watch.end("closed")

    def close(self) -> Ended:
        """End all that is left in the room; how it ended, always the same answer."""
        if self.ended is None:
            self.end()
            self.ended = self._watch.ended()
            self.ended.missing = self.missing
            said = "" if self.ended.reason != "done" else self._report.read()
            self.ended.status = json.loads(said) if said else None
            self.line.close()
            self._report.close()
            self.group.close()
            shutil.rmtree(self._root, ignore_errors=True)
        return self.ended


def python_paths() -> list[str]:
    """Where this Python and its packages live."""
    return [sys.base_prefix, sys.prefix, *(p for p in sys.path if p.endswith("-packages"))]


def _readable(paths: Sequence[str]) -> list[str]:
    """With what links among them lead to, and without those that lie in another of them."""
    real = list(dict.fromkeys([*paths, *map(os.path.realpath, paths)]))
    return [p for p in real if not any(p != q and p.startswith(q.rstrip("/") + "/") for q in real)]


def clear_folders() -> None:
    """Remove what rooms of graders that were killed have left: empty folders and groups."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        if _of_the_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)
    sweep([group for group in groups(FOLDERS) if _of_the_dead(group)])


def _of_the_dead(place: Path) -> bool:
    pid = place.name.removeprefix(FOLDERS).partition("-")[0]
    return pid.isdigit() and not _lives(int(pid))


def _lives(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent's question is
    none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _uid(number: int) -> int:
    return UIDS[(os.getpid() * ROOMS + number) % len(UIDS)]
