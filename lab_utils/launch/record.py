"""The flight record: what each rank called, in a small file that the parent reads while the rank
runs.

A rank's file is a header and a ring of fixed-size slots, mapped into memory on both sides: a call
costs the rank a few bytes, no system call. Channels and calls are spelled out once, as numbered
lines of a second file, and slots hold the numbers. What was written survives the rank, however it
ends. (torch's own TORCH_DISTRIBUTED_DEBUG=DETAIL also finds mismatches, but makes every small
collective several times slower and says nothing about ranks that never came.)
"""

from __future__ import annotations

import ast
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WRITTEN = struct.Struct("<Q")  # slots written since the start
# 1 while inside a call, its channel's word, its number there, since when (monotonic seconds)
_WAITING = struct.Struct("<IIQd")
_FLAG = struct.Struct("<I")  # the first field of _WAITING
# channel's word, call's word, number of the call on that channel, from 1
_SLOT = struct.Struct("<IIQ")
_SLOTS = 1 << 15
_RING_AT = 64
_BYTES = _RING_AT + _SLOTS * _SLOT.size
GROUPS = "order of groups"  # the channel on which all ranks agree which group comes next
ANYONE = -1  # the source of a receive that takes what comes


class Channel(NamedTuple):
    """Where calls must pair up: a process group, or (p2p) the way from one rank to another. Ranks
    are global."""

    name: str
    ranks: tuple[int, ...]
    p2p: bool = False


class Call(NamedTuple):
    """What a rank called, as far as its peers must call the same. `shape` is None where shapes may
    differ."""

    op: str
    reduce: str | None = None
    dtype: str | None = None
    shape: tuple | None = None
    root: int | None = None

    def __str__(self) -> str:
        shape = (
            ""
            if self.shape is None
            else str(self.shape).replace(",)", ")").replace("(", "[").replace(")", "]")
        )
        tensor = f"{self.dtype or ''} {shape}".strip()
        root = None if self.root is None else f"root {self.root}"
        return f"{self.op}({', '.join(w for w in (tensor, self.reduce, root) if w)})"


class Place(NamedTuple):
    """One call of one rank: the channel's word and the call's number on it."""

    channel: int
    number: int


class Recorder:
    """The rank's side: writes to the files at `path` and `path`.words. Safe to call from several
    threads."""

    def __init__(self, path: Path) -> None:
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        self._words_file = os.open(f"{path}.words", os.O_WRONLY | os.O_APPEND)
        self._words = 0
        self._written = 0
        self._numbers: dict[int, int] = {}
        self._lock = threading.Lock()
        self._inside: Place | None = None

    def word(self, what: Channel | Call) -> int:
        """The number that stands for `what` in slots; the caller remembers it."""
        with self._lock:
            os.write(self._words_file, (repr((type(what).__name__, *what)) + "\n").encode())
            self._words += 1
            return self._words - 1

    def called(self, channel: int, call: int) -> Place:
        """Write down a call before it is made: a crash inside it must find it written."""
        with self._lock:
            number = self._numbers[channel] = self._numbers.get(channel, 0) + 1
            _SLOT.pack_into(
                self._map, _RING_AT + self._written % _SLOTS * _SLOT.size, channel, call, number
            )
            self._written += 1
            _WRITTEN.pack_into(self._map, 0, self._written)
            return Place(channel, number)

    def inside(self, place: Place | None) -> Place | None:
        """Say which call this rank is held up in (None: in none); returns what was said before, to
        be put back."""
        before, self._inside = self._inside, place
        # whoever reads while the rest changes sees "in none"
        _FLAG.pack_into(self._map, _WRITTEN.size, 0)
        if place is not None:
            _WAITING.pack_into(
                self._map, _WRITTEN.size, 0, place.channel, place.number, time.monotonic()
            )
            _FLAG.pack_into(self._map, _WRITTEN.size, 1)
        return before


def reserve(file: int, nbytes: int) -> None:
    """Give an empty file its size with room on the disk for every byte; raises OSError (ENOSPC)
    where there is none. A file of holes would instead kill whoever writes to its map (SIGBUS)."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
    else:
        os.pwrite(file, bytes(nbytes), 0)


class Reader:
    """The parent's side; it makes the files, before the rank opens them."""

    def __init__(self, path: Path) -> None:
        with open(path, "w+b") as file:
            reserve(file.fileno(), _BYTES)
            self._map = mmap.mmap(file.fileno(), _BYTES)
        self._words_file = os.open(f"{path}.words", os.O_RDONLY | os.O_CREAT)
        self._words: list[Channel | Call] = []
        self._read = 0

    def new_calls(self) -> Iterator[tuple[Channel, int, Call]]:
        """The calls since the last look: channel, number on it, call. A rank too fast for the ring
        loses its oldest."""
        (written,) = _WRITTEN.unpack_from(self._map, 0)
        for i in range(max(self._read, written - _SLOTS // 2), written):
            channel, call, number = _SLOT.unpack_from(self._map, _RING_AT + i % _SLOTS * _SLOT.size)
            yield self._word(channel), number, self._word(call)
        self._read = written

    def waiting(self) -> tuple[Channel, int, float] | None:
        """The call that holds the rank up: channel, number on it, since when (time.monotonic());
        None if none does."""
        seen = _WAITING.unpack_from(self._map, _WRITTEN.size)
        inside, channel, number, since = seen
        # it is moving on while we look
        if not inside or seen != _WAITING.unpack_from(self._map, _WRITTEN.size):
            return None
        return self._word(channel), number, since

    def close(self) -> None:
        self._map.close()
        os.close(self._words_file)

    def _word(self, number: int) -> Channel | Call:
        if number >= len(self._words):
            lines = b""
            while not lines.endswith(b"\n"):
                lines += os.read(self._words_file, 1 << 20)
            for line in lines.decode().splitlines():
                kind, *values = ast.literal_eval(line)
                self._words.append({"Channel": Channel, "Call": Call}[kind](*values))
        return self._words[number]
