"""The rooms of one call, one for each rank. Every call has new ones: it begins with the same memory
and empty disks, nothing that an answer did in one call is there in the next, and after trouble the
next call is as quick as any."""

from __future__ import annotations

import select
import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from ..i18n import t
from .frames import Frame, FrameError, read_frame, write_frame
from .limits import Limits
from .nursery import PACKAGE
from .patience import LOOK_S, Patience
from .sandbox import Room

# what judges an answer, and answers of others
HIDDEN = tuple(PACKAGE / name for name in ("course/checks", "grade/judges"))
LOAD_CPU_S = 10.0
ENDS_S = 10.0  # from a program's last word to its end
ENDED_BY = {
    "memory_bytes": ("it took more memory than it may", "占用的内存超过上限"),
    "processes": ("it started more processes than it may", "启动的进程数超过上限"),
    "output_bytes": ("it printed more than it may", "输出超过上限"),
    "wall_s": ("it took more time than it may", "用时超过上限"),
    "closed": ("it hung up and went on", "断开了线路，自己还在运行"),
}


class LoadError(Exception):
    """The answer's source raised, or did not come to its end; in words."""


class Seat:
    """A rank's room. `line`, a descriptor, carries frames both ways; `patience` is the part of the
    usual one that is had with it."""

    def __init__(self, room: Room, patience: float) -> None:
        self.room, self.patience, self.line = room, patience, room.line.fileno()

    def ended(self) -> str:
        """How it has ended, who has said its last word; in words."""
        ended = self.room.wait(ENDS_S)
        if ended.reason in ENDED_BY:
            return t(*ENDED_BY[ended.reason])
        status = ended.status
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return t(f"the process was ended by {name}", f"进程被 {name} 信号终止")
        return t(f"the process ended with status {status}", f"进程已退出，状态码 {status}")


class Crew:
    """`with Crew(limits) as crew`, then `crew.seats(source, n)` for n rooms in which an answer is
    loaded."""

    def __init__(
        self, limits: Limits, hidden: Sequence[Path] = HIDDEN, as_root: bool | None = None
    ) -> None:
        self._limits, self._hidden, self._as_root = limits, hidden, as_root
        self._rooms = list[Room]()
        self.missing: dict[str, str] = {}

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()

    def seats(self, source: str, count: int, patience: float = 1.0) -> list[Seat]:
        """`count` new rooms in which the answer is loaded; those of the call before end. Raises
        LoadError if it does not load."""
        self.clear()
        for number in range(count):
            self._rooms.append(self._room(number))
        seats = [Seat(room.__enter__(), patience) for room in self._rooms]
        watch = Patience([seat.room.pid for seat in seats], LOAD_CPU_S)
        for seat in seats:
            write_frame(seat.line, Frame({"do": "load", "source": source}), watch.until)
        for number, seat in enumerate(seats):
            while not select.select([seat.line], [], [], LOOK_S)[0]:
                if over := watch.gone([number], quiet=True):
                    raise LoadError(t(f"its source: {over[1]}", f"运行其源码时：{over[1]}"))
            _hear_loaded(seat, watch.until)
        return seats

    def clear(self) -> None:
        """End all rooms."""
        for room in self._rooms:
            room.end()
        for room in self._rooms:
            room.close()
            self.missing |= room.missing
        self._rooms = []

    def _room(self, number: int) -> Room:
        return Room(self._limits, [PACKAGE], self._hidden, number, self._as_root)


def _hear_loaded(seat: Seat, until: float) -> None:
    try:
        said = read_frame(seat.line, until).words
        if said == {"done": "loaded"}:
            return
        words = str(said["raised"])
    except EOFError:
        words = seat.ended()
    except (FrameError, KeyError, TimeoutError, TypeError):
        words = t("it said what nobody says", "发来不合规的消息")
    raise LoadError(words)
