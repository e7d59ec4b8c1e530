"""The rooms of one submission, one for each rank, and who sits in them.

A room's worker has loaded torch and never runs an answer: for each call it forks a copy of itself,
which does. So every call begins with the same memory, nothing that an answer did in one call is
there in the next, and after trouble the next call is as quick as any.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from .frames import Frame, FrameError, read_frame, write_frame
from .limits import Limits
from .sandbox import Room

PACKAGE = Path(__file__).parents[1]
# what judges an answer, and answers of others
HIDDEN = tuple(PACKAGE / name for name in ("course/checks", "grade/judges"))
WORKER = "lab_utils.grade.inside.worker"
START_S = 60.0  # torch is loaded in it
LOAD_S = 20.0
ENVIRONMENT = {
    "PYTHONPATH": str(PACKAGE.parent),
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    # large tensors go back to the system when they are freed, so that memory is what is alive
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_ARENA_MAX": "1",
}
ENDED_BY = {
    "memory_bytes": "it took more memory than it may",
    "processes": "it started more processes than it may",
    "output_bytes": "it printed more than it may",
    "wall_s": "it took more time than it may",
}


class LoadError(Exception):
    """The answer's source raised, or did not come to its end; in words."""


class Seat:
    """A process for one call. `line` carries frames both ways."""

    def __init__(self, room: Room) -> None:
        self.room, self._how = room, ""
        self._socket, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(room.line, [b"b"], [theirs.fileno()])

    @property
    def line(self) -> int:
        """Its descriptor."""
        return self._socket.fileno()

    def end(self) -> str:
        """End it and all that it has started; how it ended before that, in words."""
        if self._socket.fileno() < 0:
            return self._how
        self._socket.close()
        # all there is in the room, where a room is all that it can see
        whole = "pid" not in self.room.missing
        try:
            self.room.line.sendall(b"E" if whole else b"e")
            status = read_frame(self.room.line.fileno(), time.monotonic() + START_S).words
            self._how = f"the process ended with status {int(status)}"
        except (EOFError, FrameError, OSError, TimeoutError, TypeError, ValueError):
            ended = self.room.close()
            self._how = ENDED_BY.get(ended.reason, f"its room ended with status {ended.status}")
        return self._how


class Crew:
    """`with Crew(limits) as crew`, then `crew.seats(source, n)` for n processes that have loaded an
    answer."""

    def __init__(
        self,
        limits: Limits,
        hidden: Sequence[Path] = HIDDEN,
        number: int = 0,
        as_root: bool | None = None,
    ) -> None:
        self._limits, self._hidden, self._as_root = limits, hidden, as_root
        self._first = number  # of the first room, among all that are open
        self._rooms: list[Room] = []
        self._seats: list[Seat] = []
        self.missing: dict[str, str] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.dismiss()

    def seats(self, source: str, count: int) -> list[Seat]:
        """`count` new processes in which the answer is loaded; those of the call before end. Raises
        LoadError if it does not load."""
        self.clear()
        self._open(count)
        self._seats = [Seat(room) for room in self._rooms[:count]]
        until = time.monotonic() + LOAD_S
        for seat in self._seats:
            write_frame(seat.line, Frame({"do": "load", "source": source}), until)
        for seat in self._seats:
            self._hear_loaded(seat, until)
        return self._seats

    def clear(self) -> None:
        """End all seats."""
        for seat in self._seats:
            seat.end()
            self.missing |= seat.room.missing
        self._seats = []

    def dismiss(self) -> None:
        """End all rooms."""
        for room in self._rooms:
            room.close()
        self._rooms, self._seats = [], []

    def _open(self, count: int) -> None:
        self._rooms += [None] * (count - len(self._rooms))
        new = [n for n, room in enumerate(self._rooms) if room is None or room.ended]
        for number in new:
            self._rooms[number] = Room(
                [sys.executable, "-s", "-m", WORKER],
                self._limits,
                readable=[PACKAGE],
                hidden=self._hidden,
                environment=ENVIRONMENT,
                number=self._first + number,
                as_root=self._as_root,
            )
        for number in new:
            self._rooms[number].__enter__()
            self.missing |= self._rooms[number].missing
        for number in new:
            _hear_ready(self._rooms[number])

    def _hear_loaded(self, seat: Seat, until: float) -> None:
        try:
            said = read_frame(seat.line, until).words
            if said == {"done": "loaded"}:
                return
            words = str(said["raised"])
        except TimeoutError:
            words = f"after {LOAD_S:g} s its source was still running"
        except EOFError:
            words = seat.end()
        except (FrameError, KeyError, TypeError):
            words = "it said what nobody says"
        raise LoadError(words)


def _hear_ready(room: Room) -> None:
    try:
        read_frame(room.line.fileno(), time.monotonic() + START_S)
    except EOFError:
        raise RuntimeError(room.wait().printed.decode(errors="replace")) from None
