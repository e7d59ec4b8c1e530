"""A class of 100 submissions to labs 05 and 06, with every kind of trouble among them, graded by
the command that an instructor calls; then what each earned beside what it should have.

    python tests/grade/class_of_100.py FOLDER

writes FOLDER/labNN (submissions) and FOLDER/labNN-grades, and a line for each that got what it
should not have. Takes some twenty minutes on two cores.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from classroom import STEMS, edited, hand_in, notebook, planted, right_answers, whole
from troubles import ALL, NONE, troubles

EXERCISES = {
    "lab05": ("chunk_bounds", "ring_all_reduce", "bucketed"),
    "lab06": ("zero1", "zero2", "zero3"),
}
SOME = "some"  # not all of an exercise's points
Expected = dict[str, str]


def everything(lab: str, **but: str) -> Expected:
    """All points, but for these exercises."""
    return dict.fromkeys(EXERCISES[lab], ALL) | but


def files(lab: str) -> Iterator[tuple[str, dict | str | bytes, Expected]]:
    """What may be wrong with a file: name, content, what it earns."""
    other = {"lab05": "lab06", "lab06": "lab05"}[lab]
    good, nothing = whole(lab), dict.fromkeys(EXERCISES[lab], NONE)
    text = json.dumps(good)
    yield "right", good, everything(lab)
    yield "in Chinese", whole(lab, "zh"), everything(lab)
    yield "cells the other way round", edited(good, "reversed"), everything(lab)
    yield "every cell twice", edited(good, "doubled"), everything(lab)
    yield "stripped of metadata", edited(good, "bare"), everything(lab)
    yield "code alone, with 50 MB of outputs", edited(good, "terse", "loud"), everything(lab)
    yield "broken JSON", text[: len(text) // 2], nothing
    yield "an empty file", b"", nothing
    yield "another lab", whole(other), nothing
    yield "in UTF-16", text.encode("utf-16"), nothing
    chinese = json.dumps(whole(lab, "zh"), ensure_ascii=False).encode("gb18030")
    yield "in Windows' Chinese", chinese, everything(lab)


def submissions(lab: str, folder: Path, port: int) -> Iterator[tuple[str, object, Expected]]:
    """All of them."""
    yield from files(lab)
    if lab == "lab05":
        for one in troubles(port, str(folder)):
            earns = everything(lab, ring_all_reduce=one.earns)
            yield one.name, whole(lab, ring_all_reduce=one.cell), earns
        done = dict(right_answers(lab))
        del done["bucketed"]
        yield "one exercise not done", notebook(lab, done), everything(lab, bucketed=NONE)
    wanted = {"lab05": 12, "lab06": 36}[lab]
    yield from _planted(lab, wanted)


def _planted(lab: str, count: int) -> Iterator[tuple[str, object, Expected]]:
    """Right and wrong answers of the checks' own suite, evenly chosen."""
    every = [p for p in planted(STEMS[lab]) if p.title != "the solution"]
    for number in range(count):
        one = every[number * len(every) // count]
        earned = ALL if one.criterion is None else SOME
        name = f"{one.check}, {one.title}"[:80].replace("/", "÷")
        content = whole(lab, **{one.check: f"{one.given}\n{one.cell}"})
        yield name, content, everything(lab, **{one.check: earned})


def earned(record: dict) -> Expected:
    """By exercise: all, some or none of its points."""
    found = {}
    for exercise in record["exercises"]:
        marks = [one["passed"] for one in exercise["criteria"]]
        found[exercise["check"]] = ALL if all(marks) else SOME if any(marks) else NONE
    return found


def as_it_should(got: Expected, should: Expected) -> bool:
    """Whether nothing was gained or lost; a wrong answer (some) may as well earn nothing."""
    return all(
        got.get(check) == what or (what == SOME and got.get(check) == NONE)
        for check, what in should.items()
    )


def main(top: Path) -> int:
    """Hand in, grade, compare. Returns how many got what they should not have."""
    wrong = 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        for lab in EXERCISES:
            folder, out = top / lab, top / f"{lab}-grades"
            should = {}
            for name, content, what in submissions(lab, folder, server.getsockname()[1]):
                hand_in(folder, name, content)
                should[name] = what
            began = time.monotonic()
            command = [sys.executable, "-m", "lab_utils", "grade", str(folder), "--lab", lab[3:]]
            subprocess.run([*command, "--out", str(out), "--seed", "class"], check=False)
            print(f"{lab}: {len(should)} in {(time.monotonic() - began) / 60:.1f} minutes")
            for name, what in should.items():
                record = json.loads((out / "records" / f"{name}.json").read_text())
                got, by = earned(record), _caught(record)
                good = as_it_should(got, what)
                wrong += not good
                print("  " if good else "!!", f"{record['seconds']:6.1f} s", name, got, by)
        try:
            server.accept()
            print("!! somebody called the grader's machine")
            wrong += 1
        except TimeoutError:
            print("nobody called the grader's machine")
    return wrong


def _caught(record: dict) -> str:
    kinds = [
        f"{one['failure']['criterion']}: {one['failure']['came'][:70]}"
        for exercise in record["exercises"]
        for one in exercise["criteria"]
        if one["failure"]
    ]
    return kinds[0] if kinds else ""


if __name__ == "__main__":
    sys.exit(min(main(Path(sys.argv[1])), 99))
