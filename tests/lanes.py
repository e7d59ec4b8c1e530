"""The whole suite on two cores: two runs of pytest that share one queue of files, then what needs
the machine to itself.

Much of a test is waiting: for a browser, a kernel, ranks that start or time out. `python
tests/lanes.py`, with any of pytest's own options; `python -m pytest` runs the same tests one after
the other. At its end stand the files that took longest; their seconds are kept in
.cache/test_seconds.json, and order the next run. tests/seconds.json holds those of the machine that
the project was last timed on: copy the one over the other when the order has become wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from alone import ALONE, TESTS
from quiet import Others
from take_turns import KEPT, Queue

HOUSE = TESTS.parent
SLOWEST = 20
# compiled once for all that follow, beside the first tests
EXTENSION = (
    "from lab_utils.engines.deepspeed_setup import load_deepspeed, why_not\n"
    "why_not() or load_deepspeed('cpu')"
)


def pytest(
    marks: str, queue: Queue, *places: object, output: int | None = None
) -> subprocess.Popen[str]:
    """pytest on the tests with these marks, with the caller's own options, too, begun."""
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-m", marks, *sys.argv[1:], *map(str, places)],
        cwd=HOUSE,
        env=os.environ | {"LAB_QUEUE": str(queue.folder)},
        stdout=output,
        stderr=output,
        text=True,
    )


def new_queue(folder: Path) -> Queue:
    folder.mkdir()
    return Queue(folder)


def alone_places() -> list[Path]:
    """Where tests are that need the machine to themselves, unless the caller says where to look."""
    if any(not option.startswith("-") for option in sys.argv[1:]):
        return []
    return sorted({TESTS / place.partition("::")[0] for place in (*ALONE, "browser")})


def two_at_once(queue: Queue) -> list[int]:
    """Exit statuses; one that was killed says so with a number below 0."""
    with tempfile.TemporaryFile("w+") as said:
        second = pytest("not alone", queue, output=said.fileno())
        statuses = [pytest("not alone", queue).wait(), second.wait()]
        said.seek(0)
        print(said.read())
    return statuses


def table(taken: dict[str, tuple[float, float]]) -> str:
    """The slowest files, what all others took together, and each folder."""
    slowest = sorted(taken.items(), key=lambda row: -row[1][0])
    rows = [
        *slowest[:SLOWEST],
        (f"{len(slowest[SLOWEST:])} other files", _sum(row for _, row in slowest[SLOWEST:])),
        *(
            (f"{folder}/", _sum(row for file, row in slowest if file.startswith(f"{folder}/")))
            for folder in sorted({file.partition("/")[0] for file in taken if "/" in file})
        ),
        ("all tests", _sum(taken.values())),
    ]
    return "\n".join(
        ["seconds  of cores", *(f"{a:7.1f}  {b:8.1f}  {name}" for name, (a, b) in rows)]
    )


def _sum(rows: Iterable[tuple[float, float]]) -> tuple[float, float]:
    wall = cores = 0.0
    for row in rows:
        wall, cores = wall + row[0], cores + row[1]
    return wall, cores


def main() -> int:
    """Exit status: 0 if all runs pass and every file that was begun came to its end, else 1."""
    begun, others = time.monotonic(), Others()
    extension = subprocess.Popen([sys.executable, "-c", EXTENSION], cwd=HOUSE)
    with tempfile.TemporaryDirectory() as folder:
        shared, alone = (new_queue(Path(folder) / name) for name in ("shared", "alone"))
        statuses = two_at_once(shared)
        between = time.monotonic()
        extension.wait()
        statuses.append(pytest("alone", alone, *alone_places()).wait())
        taken: dict[str, tuple[float, float]] = {}
        unfinished = []
        for file, seconds in [*shared.seconds().items(), *alone.seconds().items()]:
            if seconds is None:
                unfinished.append(file)
            else:
                taken[file] = _sum([taken.get(file, (0.0, 0.0)), (seconds[0], seconds[1])])
    ended = time.monotonic()
    print(table(taken))
    print(f"two at once: {between - begun:.0f} s, then alone: {ended - between:.0f} s")
    print(f"other programs used {others.cores():.2f} of {os.cpu_count()} cores meanwhile")
    if unfinished:
        print("begun and not finished:", *unfinished)
    # 5: nothing was left for this run, by the caller's own options
    failed = any(status not in (0, 5) for status in statuses) or bool(unfinished) or not taken
    if not failed and len(sys.argv) == 1:
        KEPT.parent.mkdir(exist_ok=True)
        seconds = {file: round(wall, 1) for file, (wall, _) in sorted(taken.items())}
        KEPT.write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
