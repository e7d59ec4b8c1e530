"""A class graded by the command that an instructor calls: with an exercise of one's own, killed in
the middle, and with labs 05 and 06."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from classroom import edited, hand_in, whole
from test_rooms import LACKS, nothing_left  # noqa: F401

pytestmark = pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
HERE = Path(__file__).parent
OWN = {
    "Ada": "def double(x):\n    return 2 * x",
    "Bo": "def double(x):\n    return x + x if len(x) else None",
    "Cy": "def double(x):\n    while True:\n        pass",
    "Di": "import os\ndef double(x):\n    os._exit(3)",
    "李雷": "def double(x):\n    return x * float('nan') # 不对",
    "Ed": "print('no answer')",
    "Flo": "def double(x):\n    return __import__('torch').nn.Parameter(2 * x)",
}
POINTS = {
    "Ada": "2",
    "Bo": "1",
    "Cy": "0",
    "Di": "0",
    "李雷": "1",
    "Ed": "0",
    "Flo": "2",
    "Gus": "0",
}


def grade(*arguments: object, **given) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lab_utils", "grade", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, **given)


def rows(out: Path) -> dict[str, dict[str, str]]:
    text = (out / "grades.csv").read_text(encoding="utf-8").splitlines()
    return {row["student"]: row for row in csv.DictReader(text)}


def hand_in_own(folder: Path) -> Path:
    for student, source in OWN.items():
        words = "请写一个函数，返回两倍。" * 5 if student == "李雷" else "Write a function."
        cells = [
            {"cell_type": "markdown", "source": words},
            {"cell_type": "code", "source": source},
        ]
        hand_in(folder, student, {"cells": cells})
    hand_in(folder, "Gus", b"{")
    return folder


def own(folder: Path, out: Path) -> list[object]:
    return [folder, "--lab", 98, "--hidden", HERE, "--out", out, "--jobs", 2]


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> Path:
    """The class with an exercise of its instructor's own, graded without a break."""
    top = tmp_path_factory.mktemp("class")
    done = grade(*own(hand_in_own(top / "in"), top / "out"), "--seed", "7")
    assert done.returncode == 0, done.stderr
    return top


def test_an_own_exercise_gets_its_marks(graded):
    found = rows(graded / "out")
    assert {student: row["points"] for student, row in found.items()} == POINTS
    assert {row["of"] for row in found.values()} == {"2"}
    assert found["Bo"]["double: value"] == "1"
    assert found["Bo"]["double: empty"] == "0"
    assert found["李雷"]["language"] == "zh"
    assert "no notebook" in found["Gus"]["trouble"]
    assert {row["advisory"] for row in found.values()} == {""}


def test_each_gets_a_page_in_their_language_without_the_hidden_input(graded):
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (graded / "out/feedback").iterdir()}
    assert set(pages) == set(POINTS)
    assert "每个数的两倍" in pages["李雷"]
    assert "twice each number" in pages["Bo"]
    assert "<script" not in "".join(pages.values())
    assert "http" not in "".join(pages.values())
    for word in ("driver", "numpy", "DRIVER", "seed"):
        assert word not in pages["Cy"] + pages["Di"]
    summary = (graded / "out/summary.html").read_text(encoding="utf-8")
    assert "8 submissions" in summary
    assert "李雷" in summary


def test_course_systems_get_their_columns(graded):
    out = graded / "out"
    canvas = list(csv.reader((out / "canvas.csv").read_text(encoding="utf-8").splitlines()))
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[1][-1] == "2"
    moodle = list(csv.DictReader((out / "moodle.csv").read_text(encoding="utf-8").splitlines()))
    assert {row["Identifier"]: row["Grade"] for row in moodle} == POINTS
    tests = json.loads((out / "gradescope/Bo.json").read_text(encoding="utf-8"))["tests"]
    assert [(one["score"], one["max_score"]) for one in tests] == [(1, 1), (0, 1)]


def test_killed_in_the_middle_it_goes_on_and_comes_to_the_same(graded, tmp_path):
    command = [sys.executable, "-m", "lab_utils", "grade"]
    command += map(str, [*own(graded / "in", tmp_path / "out"), "--seed", "7"])
    first = subprocess.Popen(command, start_new_session=True)
    records = tmp_path / "out" / "records"
    until = time.monotonic() + 120
    while len(list(records.glob("*.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)  # the grader alone: all else must end by itself
    first.wait()
    kept = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert 2 <= len(kept) < len(POINTS)
    assert grade(*own(graded / "in", tmp_path / "out")).returncode == 0
    now = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert {name: now[name] for name in kept} == kept  # these were not graded again
    assert (tmp_path / "out/grades.csv").read_text() == (graded / "out/grades.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere", "--lab", "05", "--out", "o"], "nowhere is no folder"),
        ([".", "--lab", "05", "--out", "o"], "there is no notebook in ."),
        ([".", "--lab", "77", "--out", "o"], "there is no lab 77; there are 01, 03"),
        ([".", "--lab", "98", "--hidden", "x", "--out", "o"], "there is no"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(arguments, words, tmp_path):
    (tmp_path / "x").mkdir()
    done = grade(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_grades_belongs_to_one_lab_and_seed(graded):
    done = grade(*own(graded / "in", graded / "out"), "--seed", "8")
    assert done.returncode == 2
    assert "name another --out" in done.stderr


def test_lab_05_whole(tmp_path):
    hand_in(tmp_path / "in", "right", edited(whole("lab05", "zh"), "reversed", "bare"))
    assert grade(tmp_path / "in", "--lab", "05", "--out", tmp_path / "out").returncode == 0
    [row] = rows(tmp_path / "out").values()
    assert row["points"] == row["of"] == "13"
