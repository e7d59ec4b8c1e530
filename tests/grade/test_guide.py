"""The guide's own exercise is graded as the guide says."""

from __future__ import annotations

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
    codes = [re.search(r"```python\n(.*?)```", text, re.S)[1] for text in texts]
    without_words = [re.sub(r'Failure\("value", .*', "", code) for code in codes]
    assert without_words[0] == without_words[1]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "lab98.py").write_text(codes[0], encoding="utf-8")
    for student, body in (("right", "x + x"), ("wrong", "3 * x")):
        source = f"def double(x):\n    return {body}\n"
        cells = [{"cell_type": "code", "source": source}]
        hand_in(tmp_path / "in", student, {"cells": cells})
    out = tmp_path / "out"
    where = ["--lab", 98, "--hidden", tmp_path / "own", "--out", out, "--jobs", 1]
    assert grade(tmp_path / "in", *where).returncode == 0
    assert {name: row["points"] for name, row in rows(out).items()} == {"right": "1", "wrong": "0"}
