"""How the suite runs itself: what may be left out, whose turn it is, and who judges a clock."""

from __future__ import annotations

import ast
import os
import random
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import pytest
import quiet
from alone import ALONE, ALONE_BY_NAME, TESTS
from long import LONG
from pairs import cover, pairs_of
from quiet import Others, Untimely, judge, on_time
from take_turns import Queue, longest_first


def test_any_two_values_meet_in_what_covers_a_set():
    every = [dict(zip("abcde", values, strict=True)) for values in product(range(3), repeat=5)]
    some = random.Random(0).sample(every, 100)
    for cases in (every, some):
        chosen = cover(cases, dict)
        assert all(case in cases for case in chosen)
        held = frozenset().union(*map(pairs_of, chosen))
        assert held == frozenset().union(*map(pairs_of, cases))
        assert 9 <= len(chosen) <= 20  # nine at the very least: every two of three values each
        for case in chosen:  # and none is there for nothing
            rest = [pairs_of(other) for other in chosen if other is not case]
            assert not pairs_of(case) <= frozenset().union(*rest)


def test_what_costs_less_is_preferred():
    cases = [{"a": 0, "b": 0, "dear": True}, {"a": 0, "b": 0, "dear": False}]
    names = ("a", "b")
    chosen = cover(cases, lambda case: {n: case[n] for n in names}, lambda case: 1 + case["dear"])
    assert chosen == [cases[1]]


def test_every_file_is_taken_once_and_what_did_not_end_shows(tmp_path):
    files = ["a/test_a.py", "test_b.py", "a/test_c.py"]
    first, second = Queue(tmp_path), Queue(tmp_path)
    assert (first.take(files), second.take(files), first.take(files)) == tuple(files)
    assert second.take(files) is first.take(files) is None
    first.finished("a/test_a.py", 1.5, 2.25)
    assert first.seconds() == {"a/test_a.py": [1.5, 2.25], "test_b.py": None, "a/test_c.py": None}


def test_the_longest_comes_first_and_what_is_new_is_guessed(monkeypatch):
    monkeypatch.setattr("take_turns.known_seconds", lambda: {"quiet.py": 0.01, "pairs.py": 99.0})
    assert longest_first(["quiet.py", "conftest.py", "pairs.py"]) == [
        "pairs.py",
        "conftest.py",
        "quiet.py",
    ]


def test_a_run_leaves_what_another_has_taken(tmp_path):
    places = [TESTS / place for place in ("text", "i18n", "layout/test_ring.py")]
    assert Queue(tmp_path).take(["i18n/test_i18n.py"])  # by a run that was killed in it, say
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, places)],
        cwd=TESTS.parent,
        env=os.environ | {"LAB_QUEUE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    seconds = Queue(tmp_path).seconds()
    assert set(seconds) == {"text/test_text.py", "i18n/test_i18n.py", "layout/test_ring.py"}
    assert [file for file, taken in seconds.items() if taken is None] == ["i18n/test_i18n.py"]


@pytest.fixture
def others(monkeypatch) -> list[float]:
    """What the next judgements are told of the cores that others use; nobody waits."""
    told: list[float] = []
    monkeypatch.setattr(quiet.Others, "cores", lambda self: told.pop(0))
    monkeypatch.setattr(quiet, "_wait_for_quiet", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    return told


def late() -> None:
    on_time(False, "2 s of 1 s")


def test_too_slow_on_a_quiet_machine_is_the_program_s_fault(others):
    others[:] = [0.02]
    with pytest.raises(Untimely, match="2 s of 1 s"):
        judge(late)


def test_on_a_busy_machine_it_is_tried_again(others):
    others[:], verdicts = [1.5, 1.0], [False, False, True]
    judge(lambda: on_time(verdicts.pop(0), "late"))
    assert verdicts == []


def test_where_it_never_is_quiet_the_test_says_busy_and_is_not_judged(others):
    others[:] = [1.5] * 3
    with pytest.raises(pytest.skip.Exception, match=r"busy: 2 s of 1 s.*1\.5 of \d+ cores \(load"):
        judge(late)


def test_with_ci_set_it_is_judged_all_the_same(others, monkeypatch):
    others[:] = [1.5] * 3
    monkeypatch.setenv("CI", "true")
    with pytest.raises(Untimely):
        judge(late)


def test_what_is_wrong_is_never_called_busy(others):
    others[:] = [1.5] * 3

    def wrong() -> None:
        assert [1] == [2], "not a matter of time"

    with pytest.raises(AssertionError, match="not a matter of time"):
        judge(wrong)
    assert len(others) == 3  # nobody asked


SPIN = "import time\nuntil = time.monotonic() + 0.6\nwhile time.monotonic() < until: pass"


def test_our_own_children_are_not_others():
    """A child that spins is ours, living or ended; the same seconds outside would count."""
    before = quiet.family_seconds()
    subprocess.run([sys.executable, "-c", SPIN], check=True)
    ended = quiet.family_seconds()
    with subprocess.Popen([sys.executable, "-c", SPIN]):
        time.sleep(0.5)
        living = quiet.family_seconds()
    assert ended - before >= 0.1
    assert living - ended >= 0.05
    assert Others().cores() >= 0


def test_every_place_that_is_alone_exists_and_every_clock_is_judged_alone():
    for place in ALONE:
        file, _, name = place.partition("::")
        assert (TESTS / file).exists(), place
        if name:
            assert f"def {name}(" in (TESTS / file).read_text(encoding="utf-8"), place
    for path in TESTS.rglob("test_*.py"):
        for test in _tests_that_call(path, "on_time") if path != Path(__file__) else ():
            here = path.relative_to(TESTS).as_posix()
            named = here in ALONE or f"{here}::{test}" in ALONE or test.startswith(ALONE_BY_NAME)
            assert named, f"{here}::{test}"


def test_what_is_long_is_there_and_runs_in_test_all_alone():
    def collected(exhaustive: str) -> set[str]:
        files = sorted({place.partition("::")[0] for place in LONG})
        folders = sorted({f"tests/{Path(file).parent}" for file in files})
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts=", *folders],
            cwd=TESTS.parent,
            env=os.environ | {"LAB_EXHAUSTIVE": exhaustive},
            capture_output=True,
            text=True,
            check=True,
        )
        found = (line for line in done.stdout.splitlines() if "::" in line)
        return {line.removeprefix("tests/") for line in found}

    every, sample = collected("1"), collected("")
    assert sample
    for place in LONG:
        cases = {case for case in every if case == place or case.startswith(f"{place}::")}
        assert cases, f"there is no {place}"
        assert not cases & sample


def _tests_that_call(path: Path, name: str) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        function.name
        for function in tree.body
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))
    ]
