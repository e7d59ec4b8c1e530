"""What carries messages between ranks that live in rooms: the grader itself.

A rank has no other way to another one. So what passed here is all that passed, to the byte; a rank
that waits stands still until it is answered here; and who waits for what is known at every moment,
so that ranks that wait for each other are found at once and not by a clock.
"""

from __future__ import annotations

import select
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..i18n import t
from .crew import Seat
from .frames import Frame, FrameError, read_frame, write_frame
from .patience import ASLEEP_S, LOOK_S, Patience

FRAME_S = 120.0  # from its first byte to its last
MOST_BYTES, MOST_WORDS = 1 << 30, 100_000  # of one call, which the grader has to keep
Gate = Callable[[int, dict[str, Any], list[np.ndarray]], Frame]


class Passed(NamedTuple):
    """Something that a rank did, in its order: `op` a collective's name, "send", "wait", "receive"
    or "gate"; `words` as it said them; `nbytes` of what came with it."""

    op: str
    words: dict[str, Any]
    nbytes: int = 0
    numel: int = 0


class Trouble(NamedTuple):
    """How ranks did not come to their end: kind is "raised", "ended", "hung", "mismatch" or
    "nonsense"; words say the rest. rank: whose trouble it is; None: that of all whom words name."""

    kind: str
    rank: int | None
    words: str

    def __str__(self) -> str:
        return self.words if self.rank is None else f"rank {self.rank}: {self.words}"


class _Stopped(Exception):
    pass


class Hub:
    """One call of an answer on all ranks.

    orders:    what each rank is told to do
    gate:      gate(rank, words, arrays) -> what to answer a rank that stands at a gate
    hold:      hold(rank): while it is true, nothing that the rank waits for arrives; when therefore
               nobody can go on, `early` says who waits for what, and from then on nothing is held
    cpu_s, asleep_s:  of a core and of sleep, that each rank may use (patience.py)
    slow:      a rank that is heard when no other one can go on without it
    """

    def __init__(
        self,
        seats: Sequence[Seat],
        orders: Sequence[Frame],
        gate: Gate,
        hold: Callable[[int], bool] = lambda _: False,
        cpu_s: float = 10.0,
        asleep_s: float = ASLEEP_S,
        slow: int | None = None,
    ) -> None:
        self.passed: list[list[Passed]] = [[] for _ in seats]
        self._seats, self._orders, self._gate, self._hold = seats, orders, gate, hold
        self._patience = Patience(
            [seat.room.pid for seat in seats], cpu_s * seats[0].patience, asleep_s
        )
        self.early = ""
        self._until, self._slow, self._carried = self._patience.until, slow, 0
        self._standing: dict[int, Frame] = {}
        self._done: dict[int, Frame] = {}
        self._collectives: list[dict[int, Frame]] = []
        self._issued = [0] * len(seats)
        self._waited: dict[int, set[int]] = defaultdict(set)
        self._mail: dict[tuple[int, int, int], deque[np.ndarray]] = defaultdict(deque)

    def run(self) -> list[Frame] | Trouble:
        """What each rank said when it was done; or what went wrong first."""
        try:
            for rank, order in enumerate(self._orders):
                self._say(rank, order)
            while len(self._done) < len(self._seats):
                self._let_on()
                self._hear_next()
        except _Stopped as stopped:
            return stopped.args[0]
        return [self._done[rank] for rank in range(len(self._seats))]

    def used(self) -> list[float]:
        """Seconds of a core, of each rank, as they were last looked at."""
        return [self._patience.used(rank) for rank in range(len(self._seats))]

    def never_waited(self, rank: int) -> list[str]:
        """Collectives of a rank whose result it never waited for."""
        waited = {p.words["wait"] for p in self.passed[rank] if p.op == "wait"}
        issued = [p for p in self.passed[rank] if p.op not in ("send", "wait", "receive", "gate")]
        return [p.op for number, p in enumerate(issued) if number not in waited]

    def _stop(self, kind: str, rank: int | None, words: str) -> None:
        raise _Stopped(Trouble(kind, rank, words))

    def _say(self, rank: int, frame: Frame) -> None:
        try:
            write_frame(self._seats[rank].line, frame, self._until)
        except EOFError:
            self._ended(rank)
        except TimeoutError:
            self._stop("hung", rank, t("it does not listen", "它不再接收消息"))

    def _ended(self, rank: int) -> None:
        self._stop("ended", rank, self._seats[rank].ended())

    def _hear_next(self) -> None:
        """The next words of those who run; nobody runs, or too long: trouble."""
        running = [r for r in range(len(self._seats)) if r not in self._standing | self._done]
        if not running:
            if len(self._done) < len(self._seats):
                self._nobody_runs()
            return
        # a slow rank is so slow that all others have gone as far as they can
        listened = [rank for rank in running if rank != self._slow] or running
        ends = {self._seats[rank].line: rank for rank in listened}
        ready = select.select([*ends], [], [], LOOK_S)[0]
        if over := self._patience.gone(listened, quiet=not ready):
            self._stop("hung", *over)
        for end in ready:
            self._hear(ends[end])

    def _hear(self, rank: int) -> None:
        try:
            frame = read_frame(self._seats[rank].line, time.monotonic() + FRAME_S)
            self._take(rank, frame)
        except EOFError:
            self._ended(rank)
        except TimeoutError:
            words = t("what it began to say has no end", "它的一条消息没有说完")
            self._stop("nonsense", rank, words)
        except (FrameError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            kind = type(error).__name__
            words = t(f"it said what no rank says ({kind})", f"它发来不合规的消息（{kind}）")
            self._stop("nonsense", rank, words)

    def _take(self, rank: int, frame: Frame) -> None:
        words = frame.words
        if "raised" in words:
            self._stop("raised", rank, str(words["raised"]))
        if "done" in words:
            self._done[rank] = frame
            return
        op = words.get("op") or next(k for k in ("wait", "receive", "gate") if k in words)
        sizes = [(a.nbytes, a.size) for a in frame.arrays]
        # what stands at a gate is looked at there, and is no message
        nbytes, numel = sizes[0] if sizes and op != "gate" else (0, 0)
        self._carried += nbytes
        if self._carried > MOST_BYTES or len(self.passed[rank]) > MOST_WORDS:
            words = t("it said more than anybody has to say", "它发来的消息多得不合情理")
            self._stop("nonsense", rank, words)
        self.passed[rank].append(Passed(op, words, nbytes, numel))
        if op == "send":
            channel = (rank, int(words["to"]), int(words["channel"]))
            self._mail[channel].append(frame.arrays[0])
        elif "op" in words:
            self._issue(rank, frame)
        else:
            self._standing[rank] = frame

    def _issue(self, rank: int, frame: Frame) -> None:
        number = self._issued[rank]
        self._issued[rank] += 1
        if number == len(self._collectives):
            self._collectives.append({})
        there = self._collectives[number]
        for other, first in there.items():
            same = first.words == frame.words and first.arrays[0].dtype == frame.arrays[0].dtype
            if not same or first.arrays[0].size != frame.arrays[0].size:
                self._stop(
                    "mismatch",
                    rank,
                    t(
                        f"collective {number + 1} is {_short(first)} on rank {other} and"
                        f" {_short(frame)} on rank {rank}",
                        f"第 {number + 1} 次集合通信，rank {other} 上是 {_short(first)}，"
                        f"rank {rank} 上是 {_short(frame)}",
                    ),
                )
        there[rank] = frame

    def _let_on(self) -> None:
        """Answer whoever stands and can be answered."""
        for rank, frame in list(self._standing.items()):
            try:
                answer = self._answer(rank, frame)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                words = t(f"it asked what no rank asks ({error})", f"它提出不合规的请求（{error}）")
                self._stop("nonsense", rank, words)
            if answer is not None:
                del self._standing[rank]
                self._say(rank, answer)

    def _answer(self, rank: int, frame: Frame) -> Frame | None:
        words = frame.words
        if "gate" in words:
            return self._gate(rank, words, frame.arrays)
        if self._hold(rank):
            return None
        if "wait" in words:
            return self._arrived(rank, words["wait"])
        mail = self._mail[int(words["receive"]), rank, int(words["channel"])]
        if not mail:
            return None
        message = mail.popleft()
        if message.size != words["numel"]:
            self._stop(
                "mismatch",
                rank,
                t(
                    f"rank {words['receive']} sends {message.size} elements, and rank {rank} has"
                    f" room for {words['numel']}",
                    f"rank {words['receive']} 发来 {message.size} 个元素，"
                    f"rank {rank} 只准备了 {words['numel']} 个的位置",
                ),
            )
        return Frame(0, [message])

    def _arrived(self, rank: int, number: int) -> Frame | None:
        """The result of a collective that all have issued."""
        there = self._collectives[number]
        if len(there) < len(self._seats):
            return None
        answer = Frame(0, [_result(there, rank)])
        self._waited[number].add(rank)
        if len(self._waited[number]) == len(self._seats):
            there.clear()  # it may be large
        return answer

    def _nobody_runs(self) -> None:
        waits = t("; ", "；").join(
            t(f"rank {rank} waits for ", f"rank {rank} 在等") + self._waits_for(frame.words)
            for rank, frame in sorted(self._standing.items(), key=lambda one: one[0])
        )
        if any(map(self._hold, self._standing)):
            self.early, self._hold = waits, lambda _: False
            return
        done = t(", ", "、").join(map(str, sorted(self._done)))
        gone = t(f"; done: rank {done}", f"；已结束：rank {done}") if done else ""
        self._stop("hung", None, waits + gone)

    def _waits_for(self, words: dict[str, Any]) -> str:
        if "wait" in words:
            return t(f"its collective {words['wait'] + 1}", f"第 {words['wait'] + 1} 次集合通信")
        return t(f"a message from rank {words['receive']}", f" rank {words['receive']} 的消息")


def _short(frame: Frame) -> str:
    op, size, dtype = frame.words["op"], frame.arrays[0].size, frame.arrays[0].dtype
    return t(f"{op} of {size} elements ({dtype})", f"{size} 个元素的 {op}（{dtype}）")


def _result(there: dict[int, Frame], rank: int) -> np.ndarray:
    """What a collective leaves with a rank; added up in the order of the ranks."""
    words, parts = there[0].words, [there[r].arrays[0] for r in range(len(there))]
    if words["op"] == "broadcast":
        return parts[words["source"]]
    if words["op"] == "all_gather":
        return np.concatenate(parts)
    if words["op"] == "reduce_scatter":
        parts = [part.reshape(len(there), -1)[rank] for part in parts]
    elif words["op"] != "all_reduce":
        raise ValueError(words["op"])
    add = np.maximum if words.get("reduction", "sum") == "max" else np.add
    whole = parts[0]
    for part in parts[1:]:
        whole = add(whole, part)
    return whole
