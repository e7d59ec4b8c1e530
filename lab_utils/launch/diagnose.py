"""From what the ranks called and how they ended to what went wrong: pure functions, no process in
sight."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from .record import ANYONE, Call, Channel

Cause = Literal["raised", "exited", "killed", "hung", "mismatch", "left"]
# a wait must be seen this long before conclusions are drawn from it: it may be just about to end
STABLE_S = 0.1
SLOW = 10  # timeouts that a transfer may take for which all have come
DEADLOCK_S = 1.0  # ranks that wait for each other in a circle this long will do so for ever


@dataclass
class RankState:
    """One rank as its parent sees it. Times are time.monotonic() seconds."""

    end: Literal["returned", "raised", "exited", "killed"] | None = None  # None: it runs
    at: float = 0.0  # when it ended
    # raised: the TracebackException; exited: the code; killed: the signal's number
    detail: Any = None
    # raised, because a connection broke ("lost") or timed out ("timeout")
    echo: str | None = None
    # the call that holds it up, its number, since when
    waiting: tuple[Channel, int, float] | None = None
    # the system has stopped it (SIGSTOP, a debugger); looked up only once somebody waits too long
    frozen: bool = False


@dataclass(frozen=True)
class Verdict:
    """What went wrong. `ranks`: the culprits; `peers`: those who waited for them; `calls`: who
    called what."""

    cause: Cause
    ranks: tuple[int, ...]
    channel: Channel | None = None
    number: int = 0
    calls: dict[int, Call] = field(default_factory=dict)
    peers: tuple[int, ...] = ()
    echo: bool = False  # only the symptom is known so far
    frozen: bool = False  # hung, because the system has stopped them
    all_came: bool = False  # hung in a call that everybody has made

    @property
    def witnesses(self) -> tuple[int, ...]:
        """The ranks whose stacks say more: where the culprit is, or where it is missed."""
        return {
            "hung": self.ranks,
            "killed": self.ranks,
            "mismatch": self.ranks[:2] + self.peers[:1],
            "left": self.peers[:1],
        }.get(self.cause, ())


class History:
    """All calls of all ranks, as far as they still wait for their counterparts."""

    def __init__(self) -> None:
        self._last: dict[Channel, dict[int, int]] = {}
        self._open: dict[tuple[Channel, int], dict[int, Call]] = {}
        self._takes_any: set[int] = set()
        self.disagreement: tuple[Channel, int] | None = None

    def add(self, rank: int, channel: Channel, number: int, call: Call) -> None:
        """Rank `rank` made its call no. `number` on `channel`."""
        # from now on its pairs cannot be told by counting
        if channel.p2p and channel.ranks[0] == ANYONE:
            self._takes_any.add(rank)
            return
        self._last.setdefault(channel, {})[rank] = number
        row = self._open.setdefault((channel, number), {})
        row[rank] = call
        if len({_comparable(c, channel) for c in row.values()}) > 1 and self.counts_pair(channel):
            self.disagreement = self.disagreement or (channel, number)
        elif len(row) == len(channel.ranks):
            del self._open[channel, number]

    def calls(self, channel: Channel, number: int) -> dict[int, Call]:
        """Who has made this call, and what it was."""
        return dict(sorted(self._open.get((channel, number), {}).items()))

    def missing(self, channel: Channel, number: int) -> list[int]:
        """The ranks of the channel that have not made their call no. `number` on it."""
        last = self._last.get(channel, {})
        return (
            [r for r in channel.ranks if last.get(r, 0) < number]
            if self.counts_pair(channel)
            else []
        )

    def counts_pair(self, channel: Channel) -> bool:
        """Whether its calls' numbers tell which of them meet."""
        return not (channel.p2p and channel.ranks[1] in self._takes_any)


def diagnose(
    history: History, ranks: list[RankState], timeout: float, now: float
) -> Verdict | None:
    """The root of the trouble, or None while all is well.

    Where several things are wrong, the likelier cause of the others comes first: calls that do not
    match, then a rank's own exception, then a death, then ranks that others wait for in vain. An
    exception that only says that a connection broke is a symptom and comes last. `timeout`
    (seconds) is how long a rank may be waited for.
    """
    return (
        _mismatch(history)
        or _own_end(ranks)
        or _left(history, ranks, now)
        or _frozen(ranks, timeout, now)
        or _stuck(history, ranks, timeout, now)
        or _alone(ranks, timeout, now)
        or _endless(history, ranks, timeout, now)
        or _echo(ranks)
    )


def _comparable(call: Call, channel: Channel) -> Any:
    if not channel.p2p:
        return call
    numbers = 1
    for n in call.shape or ():
        numbers *= n if isinstance(n, int) else 1
    return call.dtype, numbers  # a receive may view the numbers in another shape


def _mismatch(history: History) -> Verdict | None:
    if history.disagreement is None:
        return None
    channel, number = history.disagreement
    calls = history.calls(channel, number)
    kinds = Counter(_comparable(c, channel) for c in calls.values()).most_common()
    # as many against as many: nobody can say who is right
    if kinds[0][1] == kinds[1][1]:
        return Verdict("mismatch", tuple(calls), channel, number, calls)
    wrong = tuple(r for r, c in calls.items() if _comparable(c, channel) != kinds[0][0])
    return Verdict(
        "mismatch", wrong, channel, number, calls, tuple(r for r in calls if r not in wrong)
    )


def _own_end(ranks: list[RankState]) -> Verdict | None:
    for ends in (("raised",), ("exited", "killed")):
        found = [r for r, s in enumerate(ranks) if s.end in ends and not s.echo]
        if found:
            first = ranks[min(found, key=lambda r: ranks[r].at)]
            alike = (
                r
                for r in found
                if ranks[r].end == first.end and str(ranks[r].detail) == str(first.detail)
            )
            return Verdict(first.end, tuple(alike))
    return None


def _waits(ranks: list[RankState], now: float, least: float) -> list[tuple[int, Channel, int]]:
    """Who has been held up for at least so long, in which call; the longest first."""
    found = [
        (s.waiting[2], r, *s.waiting[:2])
        for r, s in enumerate(ranks)
        if s.end is None and s.waiting and now - s.waiting[2] >= least
    ]
    return [wait[1:] for wait in sorted(found, key=lambda wait: wait[:2])]


def _left(history: History, ranks: list[RankState], now: float) -> Verdict | None:
    for _, channel, number in _waits(ranks, now, STABLE_S):
        gone = tuple(r for r in history.missing(channel, number) if ranks[r].end == "returned")
        if gone:
            return Verdict(
                "left",
                gone,
                channel,
                number,
                history.calls(channel, number),
                _waiting_in(ranks, channel, number),
            )
    return None


def _frozen(ranks: list[RankState], timeout: float, now: float) -> Verdict | None:
    """Ranks that are stopped while somebody waits too long. Where they stand says nothing: inside a
    call that all have made, each looks as if it waited for the others."""
    found = tuple(r for r, s in enumerate(ranks) if s.end is None and s.frozen)
    if not found or not too_late(ranks, timeout, now):
        return None
    peers = tuple(r for r, s in enumerate(ranks) if r not in found and (s.waiting or s.echo))
    return Verdict("hung", found, peers=peers, frozen=True)


def too_late(ranks: list[RankState], timeout: float, now: float) -> bool:
    """Whether somebody has waited for `timeout` seconds, or a connection's own time ran out."""
    ended = [s.at for s in ranks if s.end == "returned"]
    return bool(
        any(s.echo for s in ranks)
        or _waits(ranks, now, timeout)
        or ended
        and len(ended) < len(ranks)
        and now - max(ended) > timeout
    )


def _stuck(history: History, ranks: list[RankState], timeout: float, now: float) -> Verdict | None:
    """Follow who waits for whom: to a rank that waits for nobody and does not come, or round in a
    circle."""
    held = {r: (channel, number) for r, channel, number in _waits(ranks, now, STABLE_S)}
    overdue = {r for r, *_ in _waits(ranks, now, timeout)}
    settled = {r for r, *_ in _waits(ranks, now, min(DEADLOCK_S, timeout))}
    for first in held:
        path = [first]
        while path[-1] in held:
            channel, number = held[path[-1]]
            missing = [r for r in history.missing(channel, number) if ranks[r].end is None]
            if not missing:
                break
            nexts = next((r for r in missing if r not in held), missing[0])
            if nexts in path:
                circle = path[path.index(nexts) :]
                if settled.issuperset(circle):
                    calls = {
                        r: history.calls(*held[r])[r]
                        for r in sorted(circle)
                        if r in history.calls(*held[r])
                    }
                    return Verdict("hung", tuple(sorted(circle)), calls=calls)
                break
            path.append(nexts)
        else:
            if overdue.intersection(path[:-1]):
                place = held[path[-2]]
                return Verdict(
                    "hung", (path[-1],), *place, history.calls(*place), _waiting_in(ranks, *place)
                )
    return None


def _waiting_in(ranks: list[RankState], channel: Channel, number: int) -> tuple[int, ...]:
    return tuple(
        r
        for r, s in enumerate(ranks)
        if s.end is None and s.waiting and s.waiting[:2] == (channel, number)
    )


def _alone(ranks: list[RankState], timeout: float, now: float) -> Verdict | None:
    running = [r for r, s in enumerate(ranks) if s.end is None]
    others = [s for s in ranks if s.end == "returned"]
    if (
        len(running) == 1
        and others
        and len(others) == len(ranks) - 1
        and now - max(s.at for s in others) > timeout
    ):
        return Verdict("hung", tuple(running))
    return None


def _endless(
    history: History, ranks: list[RankState], timeout: float, now: float
) -> Verdict | None:
    """A wait without an end although nobody is missing, as for a message from anyone. Where all are
    known to have come the transfer itself may be slow, and has SLOW times as long."""
    overlong = _waits(ranks, now, SLOW * timeout)
    for wait in _waits(ranks, now, timeout):
        _, channel, number = wait
        if not history.missing(channel, number) and (
            wait in overlong or not history.counts_pair(channel)
        ):
            return Verdict(
                "hung", _waiting_in(ranks, channel, number), channel, number, all_came=True
            )
    return None


def _echo(ranks: list[RankState]) -> Verdict | None:
    echoes = [r for r, s in enumerate(ranks) if s.echo]
    if not echoes:
        return None
    busy = [r for r, s in enumerate(ranks) if s.end is None and not s.waiting]
    if len(busy) == 1 and any(ranks[r].echo == "timeout" for r in echoes):
        return Verdict("hung", tuple(busy), peers=tuple(echoes))
    return Verdict("raised", (min(echoes, key=lambda r: ranks[r].at),), echo=True)
