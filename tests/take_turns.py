"""Files of tests shared out between several runs of pytest: each takes the next when it is free,
the longest first.

A run that is given LAB_QUEUE, a folder, takes a file by making a note in there that no other has
made, and writes its seconds into the note when the file is done. What was begun and not finished
therefore shows, whatever ended the run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from quiet import family_seconds

TESTS = Path(__file__).parent
# of the last whole run on this machine; of the machine that the project was last timed on
KEPT = TESTS.parent / ".cache" / "test_seconds.json"
COMMITTED = TESTS / "seconds.json"
BYTES_PER_SECOND = 1500  # what is new is guessed by its length


def known_seconds() -> dict[str, float]:
    """Seconds by file, where any are known."""
    found: dict[str, float] = {}
    for file in (COMMITTED, KEPT):
        if file.exists():
            found |= json.loads(file.read_text(encoding="utf-8"))
    return found


def longest_first(files: Iterable[str]) -> list[str]:
    """Paths below tests/, by the seconds that they took or are guessed to take."""
    known = known_seconds()

    def seconds(file: str) -> float:
        return known.get(file) or (TESTS / file).stat().st_size / BYTES_PER_SECOND

    return sorted(files, key=lambda file: (-seconds(file), file))


@dataclass
class Queue:
    """The notes of all runs that share a folder."""

    folder: Path

    def take(self, files: Iterable[str]) -> str | None:
        """The first that nobody has taken, now ours; None when all are taken."""
        for file in files:
            try:
                self._note(file).touch(exist_ok=False)
            except FileExistsError:
                continue
            return file
        return None

    def finished(self, file: str, seconds: float, core_seconds: float) -> None:
        self._note(file).write_text(json.dumps([round(seconds, 2), round(core_seconds, 2)]))

    def seconds(self) -> dict[str, list[float] | None]:
        """By file that was begun: seconds, and seconds of all cores together; None where it did not
        end."""
        return {
            note.name.replace("|", "/"): json.loads(note.read_text() or "null")
            for note in sorted(self.folder.iterdir())
        }

    def _note(self, file: str) -> Path:
        return self.folder / file.replace("/", "|")


def run_from_queue(session: pytest.Session, queue: Queue) -> None:
    """The loop of a run: a file of this session's tests after the other, as long as there are any.

    The next is taken before a file's last test, so that what both share need not be made anew.
    """
    by_file: dict[str, list[pytest.Item]] = {}
    for item in session.items:
        by_file.setdefault(item.path.relative_to(TESTS).as_posix(), []).append(item)
    order = longest_first(by_file)
    file = queue.take(order)
    while file is not None:
        begun, computed, following = time.monotonic(), family_seconds(), None
        for item, after in _with_next(by_file[file]):
            if after is None:
                following = queue.take(order)
                after = by_file[following][0] if following else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
        queue.finished(file, time.monotonic() - begun, family_seconds() - computed)
        file = following


def _with_next(items: list[pytest.Item]) -> Iterator[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def shared_queue() -> Queue | None:
    """That of LAB_QUEUE, if this run was given one; a run of pytest inside a test has none."""
    folder = os.environ.pop("LAB_QUEUE", None)
    return Queue(Path(folder)) if folder else None
