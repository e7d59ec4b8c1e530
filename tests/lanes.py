"""The whole suite on two cores: first what needs the machine to itself, then the rest as two runs of pytest at once.

Much of a test is waiting: for a browser, a kernel, ranks that start or time out. `python tests/lanes.py`, with any of pytest's own options;
`python -m pytest` runs the same tests one after the other.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conftest import ALONE

TESTS = Path(__file__).parent
FIRST = ("browser", "course", "estimate", "notebooks", "widgets")      # about half of the time; the second lane takes all other folders


def pytest(*arguments: object, output: int | None = None) -> subprocess.Popen[str]:
    """pytest with the caller's own options, too, begun."""
    return subprocess.Popen([sys.executable, "-m", "pytest", *map(str, arguments), *sys.argv[1:]], cwd=TESTS.parent, stdout=output, stderr=output, text=True)


def main() -> int:
    """Exit status: 0 if all three runs pass, else 1."""
    begun = time.monotonic()
    alone = pytest("-m", "alone", *(TESTS / place for place in (*ALONE, "browser"))).wait()
    between = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        second = pytest("-m", "not alone", *(f"--ignore={TESTS / folder}" for folder in FIRST), output=said.fileno())
        first = pytest("-m", "not alone", *(TESTS / folder for folder in FIRST)).wait()
        second.wait()
        said.seek(0)
        print(said.read())
    print(f"alone: {between - begun:.0f} s, then two at once: {time.monotonic() - between:.0f} s")
    return int(any((alone, first, second.returncode)))      # one that was killed says so with a number below 0


if __name__ == "__main__":
    sys.exit(main())
