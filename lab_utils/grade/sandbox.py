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
FOLDERS = "lab-room-"
SPACES = ("mount", "pid", "net", "ipc", "name")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")


class RoomError(RuntimeError):
    """The room could not be furnished, or its program spoke in no known way."""


class Room:
    """A running program; `with Room(argv, …) as room`. It reads and writes frames (frames.py) on
    descriptor LAB_LINE of its environment, a socket; `line` is its other end.

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
        self._root = tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-")
        as_root = os.getuid() == 0 if as_root is None else as_root
        self.line, end = socket.socketpair()
        self._report, report = os.pipe()
        theirs = (end.fileno(), report)
        room = dict(
            root=self._root,
            argv=list(argv),
            spaces=[*SPACES] if as_root else ["user", *SPACES],
            uid=FIRST_UID + number if as_root else None,
            readable=_readable([*SYSTEM, *python_paths(), *map(str, readable)]),
            hidden=[str(path) for path in hidden],
            disk_bytes=limits.disk_bytes,
            threads=THREADS,
            report=report,
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": "/tmp",
                "LAB_LINE": str(end.fileno()),
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
        end.close()
        os.close(report)
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
        write_frame(self.line.fileno(), frame, until)
        return read_frame(self.line.fileno(), until)

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
            self.line.close()
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
    """Remove what rooms of graders that were killed have left: empty folders."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*-*"):
        pid = folder.name.removeprefix(FOLDERS).partition("-")[0]
        if pid.isdigit() and not _lives(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _lives(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent's question is
    none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
