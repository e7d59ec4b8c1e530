"""A class of 100 submissions to labs 05 and 06, with every kind of trouble among them, graded by
the command that an instructor calls; then what each earned beside what it should have.

    python tests/grade/class_of_100.py FOLDER            # grade, compare; FOLDER/class.json
    python tests/grade/class_of_100.py FOLDER --killed   # again, killed in the middle: same CSV?
                                                         # (or only lab05, lab06)
    python tests/grade/class_of_100.py FOLDER --pages    # docs/grading_class(.zh).md from these

writes FOLDER/labNN (submissions) and FOLDER/labNN-grades, and says !! for each that got what it
should not have.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from classroom import OTHERWISE, STEMS, edited, hand_in, notebook, planted, right_answers, whole
from leftovers import left_behind
from troubles import ALL, NONE, SOME, troubles

JOBS = 2
PLANTED = {"lab05": 11, "lab06": 29}
EXERCISES = {
    "lab05": ("chunk_bounds", "ring_all_reduce", "bucketed"),
    "lab06": ("zero1", "zero2", "zero3"),
}
Expected = dict[str, str]


class Handed(NamedTuple):
    """One submission: its content, what each exercise should earn; `check`: the one that is
    tampered with; kind is "file", "trouble" or "planted"."""

    name: str
    chinese: str
    kind: str
    content: Any
    should: Expected
    check: str = ""


def everything(lab: str, **but: str) -> Expected:
    """All points, but for these exercises."""
    return dict.fromkeys(EXERCISES[lab], ALL) | but


def files(lab: str) -> Iterator[Handed]:
    """What may be wrong with a file."""
    other = {"lab05": "lab06", "lab06": "lab05"}[lab]
    good, whole_zh = whole(lab), whole(lab, "zh")
    full, nothing = everything(lab), dict.fromkeys(EXERCISES[lab], NONE)
    text = json.dumps(good)
    every = [
        ("right", "全部正确", good, full),
        ("in Chinese", "中文版", whole_zh, full),
        ("cells the other way round", "代码格顺序颠倒", edited(good, "reversed"), full),
        ("every cell twice", "每格都重复一次", edited(good, "doubled"), full),
        ("stripped of metadata", "元数据全部丢失", edited(good, "bare"), full),
        ("all cells deleted but the answers", "只剩答案，其余全删", edited(good, "bones"), full),
        (
            "code alone, 50 MB of outputs",
            "只有代码，外加 50 MB 输出",
            edited(good, "terse", "loud"),
            full,
        ),
        ("broken JSON", "JSON 残缺", text[: len(text) // 2], nothing),
        ("an empty file", "空文件", b"", nothing),
        ("another lab", "交错了实验", whole(other), nothing),
        ("in UTF-16", "UTF-16 编码", text.encode("utf-16"), full),
        (
            "in Windows' Chinese encoding",
            "GB 18030 编码",
            json.dumps(whole_zh, ensure_ascii=False).encode("gb18030"),
            full,
        ),
    ]
    yield from (Handed(name, zh, "file", content, earns) for name, zh, content, earns in every)


def submissions(lab: str, folder: Path, port: int) -> Iterator[Handed]:
    """All of a lab's."""
    yield from files(lab)
    for one in troubles(lab, port, str(folder)):
        content, earns = whole(lab, **{one.check: one.cell}), everything(lab)
        earns[one.check] = one.earns
        yield Handed(one.name, one.chinese, "trouble", content, earns, one.check)
    if lab == "lab05":
        done = dict(right_answers(lab))
        del done["bucketed"]
        earns = everything(lab, bucketed=NONE)
        yield Handed("one exercise not done", "有一题没做", "file", notebook(lab, done), earns)
    yield from _planted(lab, PLANTED[lab])


def _planted(lab: str, count: int) -> Iterator[Handed]:
    """Right and wrong answers of the checks' own suite, evenly chosen."""
    every = [p for p in planted(STEMS[lab]) if p.title not in ("the solution", *OTHERWISE)]
    for number in range(count):
        one = every[number * len(every) // count]
        name = f"{one.check}, {one.title}"[:80].replace("/", "÷")
        content = whole(lab, **{one.check: f"{one.given}\n{one.cell}"})
        earns = everything(lab, **{one.check: ALL if one.criterion is None else SOME})
        yield Handed(name, name, "planted", content, earns, one.check)


def earned(record: dict) -> Expected:
    """By exercise: all, some or none of its points."""
    found = {}
    for exercise in record["exercises"]:
        marks = [one["passed"] for one in exercise["criteria"]]
        found[exercise["check"]] = ALL if all(marks) else SOME if any(marks) else NONE
    return found


def as_it_should(got: Expected, handed: Handed) -> bool:
    """Whether nothing was gained or lost; a wrong answer of the suite may as well earn nothing."""
    none_will_do = handed.kind == "planted"
    return all(
        got.get(check) == what or (none_will_do and what == SOME and got.get(check) == NONE)
        for check, what in handed.should.items()
    )


class Load:
    """The machine's load while something runs: `with Load() as load`, then load.mean."""

    def __enter__(self) -> Load:
        self._seen, self._over = [], threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self._seen.append(os.getloadavg()[0])
            if self._over.wait(10):
                return

    @property
    def mean(self) -> float:
        return round(sum(self._seen) / len(self._seen), 1)


def command(top: Path, lab: str, out: Path) -> list[str]:
    """What an instructor calls."""
    grade = [sys.executable, "-m", "lab_utils", "grade", str(top / lab), "--lab", lab[3:]]
    return [*grade, "--out", str(out), "--seed", "class", "--jobs", str(JOBS)]


def run(top: Path) -> int:
    """Hand in, grade, compare. Returns how many got what they should not have."""
    before, rows, minutes, load = left_behind(), [], {}, {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        for lab in EXERCISES:
            every = list(submissions(lab, top / lab, server.getsockname()[1]))
            for one in every:
                hand_in(top / lab, one.name, one.content)
            began, out = time.monotonic(), top / f"{lab}-grades"
            with Load() as seen:
                done = subprocess.run(command(top, lab, out), check=False).returncode
            minutes[lab], load[lab] = round((time.monotonic() - began) / 60, 1), seen.mean
            print(f"{lab}: {len(every)} in {minutes[lab]} minutes, load {seen.mean}, exit {done}")
            for one in every:
                rows.append(_row(lab, one, out))
                print("  " if rows[-1]["good"] else "!!", *rows[-1].values())
        try:
            server.accept()
            called = True
        except TimeoutError:
            called = False
    after = left_behind()
    left = {kind: sorted(set(after[kind]) - set(before[kind])) for kind in after}
    print("called:", called, "left behind:", left)
    facts = dict(rows=rows, minutes=minutes, load=load, called=called, jobs=JOBS)
    facts |= dict(left={kind: len(found) for kind, found in left.items()}, cores=os.cpu_count())
    facts["date"] = time.strftime("%Y-%m-%d")
    (top / "class.json").write_text(json.dumps(facts, ensure_ascii=False, indent=1))
    return sum(not row["good"] for row in rows) + called + sum(map(len, left.values()))


def _row(lab: str, one: Handed, out: Path) -> dict[str, Any]:
    record = json.loads((out / "records" / f"{one.name}.json").read_text(encoding="utf-8"))
    got = earned(record)
    exercises = [e for e in record["exercises"] if e["check"] == (one.check or e["check"])]
    marks = [m for e in exercises for m in e["criteria"]]
    first = next((m["failure"] for m in marks if m["failure"]), None)
    said = first["came"] if first else ""
    if record["trouble"]:
        said = record["trouble"][0]
    return dict(
        good=as_it_should(got, one) and not record["advisory"],
        lab=lab,
        name=one.name,
        chinese=one.chinese,
        kind=one.kind,
        check=one.check,
        should=one.should,
        got=got,
        points=[sum(m["passed"] for m in marks), len(marks)],
        failure=first["criterion"] if first else "",
        said=said.replace(str(out.parent), "CLASS")[:160],
        seconds=record["seconds"],
        advisory=record["advisory"],
    )


def run_killed(top: Path) -> int:
    """Grade again, killed when half is done, begun anew; 0 when that comes to the same tables."""
    facts = json.loads((top / "class.json").read_text(encoding="utf-8"))
    facts.setdefault("killed", {})
    for lab in set(EXERCISES) & set(sys.argv) or EXERCISES:
        out = top / f"{lab}-killed"
        first = subprocess.Popen(command(top, lab, out))
        half = sum(row["lab"] == lab for row in facts["rows"]) // 2
        while len(list((out / "records").glob("*.json"))) < half and first.poll() is None:
            time.sleep(0.1)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        kept = {p: p.stat().st_mtime_ns for p in (out / "records").glob("*.json")}
        subprocess.run(command(top, lab, out), check=False)
        again = sum(p.stat().st_mtime_ns != when for p, when in kept.items())
        tables = [
            (top / f"{lab}-{way}" / "grades.csv").read_bytes() for way in ("grades", "killed")
        ]
        same = tables[0] == tables[1]
        facts["killed"][lab] = dict(kept=len(kept), graded_again=again, same=same)
        print(lab, facts["killed"][lab])
    facts["left_killed"] = {kind: len(found) for kind, found in left_behind().items()}
    print(facts["left_killed"])
    (top / "class.json").write_text(json.dumps(facts, ensure_ascii=False, indent=1))
    return sum(not one["same"] or one["graded_again"] for one in facts["killed"].values())


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve()
    if "--pages" in sys.argv:
        from class_pages import write_pages

        write_pages(json.loads((folder / "class.json").read_text(encoding="utf-8")))
    else:
        sys.exit(min((run_killed if "--killed" in sys.argv else run)(folder), 99))
