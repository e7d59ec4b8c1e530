"""The guide's own exercise is graded as the guide says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from classroom import hand_in
from test_batch import grade, rows
from test_rooms import LACKS, nothing_left  # noqa: F401

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
def test_the_guides_exercise_works(tmp_path):
    texts = [(DOCS / f"grading{lang}.md").read_text(encoding="utf-8") for lang in ("", ".zh")]
    codes = [re.findall(r"```python\n(.*?)```", text, re.S) for text in texts]
    assert codes[0] == codes[1]
    double, pieces, answer = codes[0]
    bodies = {"right": "x + x", "wrong": "3 * x"}
    answers = {name: f"def double(x):\n    return {body}\n" for name, body in bodies.items()}
    assert _points(tmp_path / "98", 98, double, answers) == {"right": ("1",), "wrong": ("0",)}
    whole = "padded = [torch.cat([p, torch.zeros(9 - len(p))]) for p in pieces]\n"
    padded = (
        answer.replace("    came = [torch.empty(size)", f"    {whole}    came = [torch.empty(9)")
        .replace("came[axis.rank] = pieces", "came[axis.rank] = padded")
        .replace("exchange(pieces[to]", "exchange(padded[to]")
        .replace("torch.cat(came)", "torch.cat([c[:n] for c, n in zip(came, sizes)])")
    )
    silent = "def all_to_all(pieces, sizes, axis):\n    axis._link.tell({'done': 0})\n"
    nobody = "def all_to_all(pieces, sizes, axis):\n    return None\n"
    answers = {"right": answer, "padded": padded, "silent": silent, "nobody": nobody}
    answers["turned"] = answer.replace("torch.cat(came)", "torch.cat(came[::-1])")
    marks = _points(tmp_path / "97", 97, pieces, answers)
    nothing = ("0", "0")
    assert marks.pop("right") == ("1", "2")
    assert marks.pop("padded") == ("1", "0")
    assert marks == {"silent": nothing, "nobody": nothing, "turned": nothing}


def _points(
    folder: Path, lab: int, judge: str, answers: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """Points of each criterion, by student."""
    (folder / "own").mkdir(parents=True)
    (folder / "own" / f"lab{lab}.py").write_text(judge, encoding="utf-8")
    for student, source in answers.items():
        hand_in(folder / "in", student, {"cells": [{"cell_type": "code", "source": source}]})
    where = ["--lab", lab, "--hidden", folder / "own", "--out", folder / "out", "--jobs", 1]
    assert grade(folder / "in", *where).returncode == 0
    return {
        name: tuple(mark for column, mark in row.items() if ": " in column)
        for name, row in rows(folder / "out").items()
    }


@pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
def test_what_an_answer_tells_of_its_input_is_of_no_use_for_its_next_version(tmp_path):
    """The same file gets the same numbers; another version others."""
    judge = re.search(r"```python\n(.*?)```", (DOCS / "grading.md").read_text("utf-8"), re.S)[1]
    telling = "def double(x):\n    raise RuntimeError(str(x.tolist()[:2]))\n"
    sources = {"one": telling, "two": telling, "later": telling + "# \n"}
    assert set(_points(tmp_path, 98, judge, sources).values()) == {("0",)}
    said = {
        name: json.loads((tmp_path / "out/records" / f"{name}.json").read_text())["exercises"][0]
        for name in sources
    }
    told = {name: one["criteria"][0]["failure"]["came"] for name, one in said.items()}
    assert "RuntimeError: [" in told["one"]
    assert told["one"] == told["two"] != told["later"]


FAULTS = {  # of a judge: what is changed in the guide's, and what is said
    "no list": ("JUDGES = [", "MARKS = [", "lab98.py binds no list JUDGES"),
    "no Python": ("JUDGES = [", "JUDGES = ]", "lab98.py binds no list JUDGES: SyntaxError"),
    "too many ranks": ("ranks: int = 1", "ranks: int = 9", "9 ranks, and may have 8"),
    "never shown": ("criteria=[C", 'criteria=[Criterion("x", "x", "x"), C', "no call shows x"),
    "misspelt": ('return {"value": None}', 'return {"valeu": None}', "judged on ['valeu']"),
    "no call": ("[Call(random.randint(2, 9))]", "[]", "no call shows value"),
}


@pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_judges_own_fault_is_nobodys_zero(tmp_path, fault):
    old, new, said = FAULTS[fault]
    judge = re.search(r"```python\n(.*?)```", (DOCS / "grading.md").read_text("utf-8"), re.S)[1]
    assert old in judge
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lab98.py").write_text(judge.replace(old, new), encoding="utf-8")
    right = "def double(x):\n    return 2 * x\n"
    hand_in(tmp_path / "in", "right", {"cells": [{"cell_type": "code", "source": right}]})
    where = ["--lab", 98, "--hidden", tmp_path / "own", "--out", tmp_path / "out", "--jobs", 1]
    done = grade(tmp_path / "in", *where)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    table = rows(tmp_path / "out")["right"] if (tmp_path / "out/grades.csv").exists() else {}
    assert said in done.stderr + table.get("trouble", "")
    assert not table.get("points")


@pytest.mark.skipif(bool(LACKS), reason=f"this machine gives no such room: {LACKS}")
def test_a_judge_that_stumbles_is_named_with_its_line(tmp_path):
    judge = (DOCS / "grading.md").read_text(encoding="utf-8")
    judge = re.search(r"```python\n(.*?)```", judge, re.S)[1]
    judge = judge.replace("isinstance(came, torch.Tensor) and ", "")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lab98.py").write_text(judge, encoding="utf-8")
    number = "def double(x):\n    return 5\n"
    hand_in(tmp_path / "in", "number", {"cells": [{"cell_type": "code", "source": number}]})
    where = ["--lab", 98, "--hidden", tmp_path / "own", "--out", tmp_path / "out", "--jobs", 1]
    done = grade(tmp_path / "in", *where)
    line = next(n for n, text in enumerate(judge.splitlines(), 1) if "(2 * x).tolist()" in text)
    assert done.returncode == 1
    assert "1 without a mark" in done.stderr
    row = rows(tmp_path / "out")["number"]
    assert row["points"] == ""
    assert f"lab98.py:{line}" in row["trouble"]
