"""What goes between the grader and a room: JSON and arrays as raw bytes. Never a pickle, which
would run what it likes in whoever reads it.

A frame is a length (8 bytes, little-endian), a length of JSON, the JSON and the arrays' bytes one
after the other. `words` is the JSON; "arrays" in the header lists [dtype, shape] of each array.
"""

from __future__ import annotations

import json
import math
import os
import select
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

DTYPES = ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
MOST = 1 << 28  # bytes of one frame


class FrameError(ValueError):
    """Bytes that are no frame."""


@dataclass
class Frame:
    """JSON and arrays (float32, float64, integers, bool)."""

    words: Any
    arrays: list[np.ndarray] = field(default_factory=list)

    def packed(self) -> bytes:
        """As bytes, lengths included."""
        arrays = [np.ascontiguousarray(a) for a in self.arrays]
        kinds = [[a.dtype.name, list(a.shape)] for a in arrays]
        head = json.dumps({"words": self.words, "arrays": kinds}).encode()
        body = head + b"".join(a.tobytes() for a in arrays)
        return len(body).to_bytes(8, "little") + len(head).to_bytes(8, "little") + body

    @classmethod
    def unpacked(cls, head_length: int, body: bytes) -> Frame:
        """From what came after the lengths. Raises FrameError."""
        try:
            head = json.loads(body[:head_length])
            words, kinds = head["words"], head["arrays"]
            arrays, at = [], head_length
            for name, shape in kinds:
                if name not in DTYPES or not all(isinstance(n, int) and n >= 0 for n in shape):
                    raise FrameError("an array of an unknown kind")
                dtype = np.dtype(name)
                nbytes = dtype.itemsize * math.prod(shape)
                if at + nbytes > len(body):
                    raise FrameError("an array is cut short")
                arrays.append(np.frombuffer(body[at : at + nbytes], dtype).reshape(shape))
                at += nbytes
        except (TypeError, KeyError, ValueError, RecursionError) as error:
            raise FrameError(f"no frame: {error}") from None
        return cls(words, arrays)


def write_frame(descriptor: int, frame: Frame, until: float = math.inf) -> None:
    """Write all of it. Raises TimeoutError once time.monotonic() has passed `until`, EOFError when
    nobody is there to read."""
    left = memoryview(frame.packed())
    os.set_blocking(descriptor, False)
    while left:
        if not select.select([], [descriptor], [], _seconds_to(until))[1]:
            raise TimeoutError("nobody reads")
        try:
            left = left[os.write(descriptor, left[:65536]) :]
        except (BrokenPipeError, ConnectionResetError):
            raise EOFError("the program has ended") from None


def read_frame(descriptor: int, until: float = math.inf) -> Frame:
    """The next frame. Raises EOFError at the end of what is written, TimeoutError, FrameError."""
    length, head = (int.from_bytes(_exactly(descriptor, 8, until), "little") for _ in range(2))
    if not head <= length <= MOST:
        raise FrameError("lengths that cannot be")
    return Frame.unpacked(head, _exactly(descriptor, length, until))


def _exactly(descriptor: int, count: int, until: float) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        if not select.select([descriptor], [], [], _seconds_to(until))[0]:
            raise TimeoutError("no answer")
        try:
            part = os.read(descriptor, min(1 << 20, count - len(parts)))
        except ConnectionResetError:  # it ended with words of ours unread
            part = b""
        if not part:
            raise EOFError("the program has ended")
        parts += part
    return bytes(parts)


def _seconds_to(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())
