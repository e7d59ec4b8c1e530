"""LaunchError: the sentences of its verdict, and a traceback cut down to the caller's own code."""

from __future__ import annotations

import importlib.util
import multiprocessing
import re
from collections.abc import Iterable
from pathlib import Path
from traceback import FrameSummary, StackSummary, TracebackException

from ..i18n import t
from .diagnose import Cause, RankState, Verdict
from .sentences import sentences

_LOST = re.compile(
    r"gloo/transport|Connection (closed|reset) by peer|ncclRemoteError|ncclSystemError"
)
_TIMED_OUT = re.compile(
    r"Timed out waiting \d+ms|wait timeout after \d+ms|Watchdog caught collective operation timeout"
)
_HERE = str(Path(__file__).parent)


class LaunchError(RuntimeError):
    """A launch that failed. Its text names the rank, the likely cause and a remedy, then shows the
    rank's traceback.

    `rank` is the culprit (the first of `ranks`, where several share the blame), `cause` one of
    "raised", "exited", "killed", "hung", "mismatch" and "left" (returned while others waited for
    it); `traceback` holds the rank's traceback, or for a hang where it stood, cut down to the
    caller's own code; "" where there is none.
    """

    def __init__(
        self, message: str, ranks: tuple[int, ...], cause: Cause, traceback: str = ""
    ) -> None:
        super().__init__(f"{message}\n\n{traceback}".rstrip())
        self.rank, self.ranks, self.cause, self.traceback = ranks[0], ranks, cause, traceback

    def _render_traceback_(self) -> list[str]:
        """IPython prints this in place of the frames of the launch, which are nobody's fault."""
        return [f"LaunchError: {self}"]


def explain(
    verdict: Verdict, ranks: list[RankState], timeout: float, stacks: dict[int, str]
) -> LaunchError:
    """The error for a verdict; `stacks` says where its witnesses stood."""
    headline, remedy = sentences(verdict, ranks, timeout)
    if verdict.cause == "raised":
        text = "".join(users(ranks[verdict.ranks[0]].detail).format())
    else:
        text = "\n".join(
            t(f"rank {r} was here:", f"rank {r} 停留的位置：") + f"\n{s}"
            for r, s in stacks.items()
            if s
        )
    return LaunchError(f"{headline}\n{remedy}", verdict.ranks, verdict.cause, text)


def echo_of(outcome: TracebackException) -> str | None:
    """Whether an exception only says that a peer is gone ("lost") or late ("timeout"); None if it
    speaks for itself."""
    texts = [str(e) for e in _chain(outcome)]
    return (
        "timeout"
        if any(map(_TIMED_OUT.search, texts))
        else "lost"
        if any(map(_LOST.search, texts))
        else None
    )


def users(outcome: TracebackException) -> TracebackException:
    """The same traceback with the caller's own frames only."""
    for e in _chain(outcome):
        e.stack[:] = _users_frames(e.stack)
    return outcome


def users_stack(dump: str) -> str:
    """The main thread's part of a faulthandler dump, newest call last, with its source, the
    caller's own frames only."""
    main = dump.rpartition("(most recent call first):")[2]
    found = re.findall(r'File "(.*)", line (\d+) in (.*)', main)
    return "".join(
        StackSummary.from_list(
            _users_frames(
                FrameSummary(file, int(line), name) for file, line, name in reversed(found)
            )
        ).format()
    )


def _users_frames(frames: Iterable[FrameSummary]) -> list[FrameSummary]:
    torch = importlib.util.find_spec("torch")
    ours = (
        _HERE,
        str(Path(multiprocessing.__file__).parent),
        *(torch.submodule_search_locations if torch else ()),
    )
    frames = [f for f in frames if not f.filename.startswith(ours[:2]) and f.filename != "<string>"]
    return [f for f in frames if not f.filename.startswith(ours)] or frames


def _chain(outcome: TracebackException) -> list[TracebackException]:
    found, todo = [], [outcome]
    while todo:
        found.append(e := todo.pop())
        todo += [
            x
            for x in (e.__cause__, e.__context__, *(getattr(e, "exceptions", None) or ()))
            if x is not None
        ]
    return found
