"""Where a learner stands: by page 00's table and by `python -m lab_utils progress`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab_utils import i18n
from lab_utils.__main__ import main
from lab_utils.course import check, progress
from lab_utils.course.standing import my_progress, overview, standing

ANSWERS = {
    "05-recall-mean": {"value": "mean", "at": 2},  # right
    "05-ring": {"value": "3.0", "at": 1},  # a prediction: neither right nor wrong
    "06-nobody-asked": {"value": "x", "at": 3},
    "07-damaged": 3,
}


def bounds(numel, n):
    size, longer = divmod(numel, n)
    ends = [r * size + min(r, longer) for r in range(n + 1)]
    return [*zip(ends, ends[1:], strict=False)]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The folder of a learner who passed one exercise of lab 05 and answered two questions."""
    monkeypatch.setenv("LAB_PROGRESS", str(tmp_path))
    assert check.chunk_bounds(bounds).passed
    (tmp_path / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
    return tmp_path


def lesson(number):
    return next(one for one in standing() if one.number == number)


def test_what_was_done_is_counted_and_nothing_else(kept):
    done = lesson("05")
    assert [one.check for one in done.passed] == ["chunk_bounds"]
    assert done.answers == {"05-recall-mean": "mean", "05-ring": "3.0"}
    assert done.right == 1
    assert not lesson("06").answers
    assert not lesson("06").passed


def test_exercises_stand_in_the_labs_order():
    told = [one.check for lesson in standing() for one in lesson.exercises]
    assert told == [*check.HOMES]


@pytest.mark.parametrize("damage", ["", "{", "[1]", "null"])
def test_damaged_answers_count_as_none(kept, damage):
    (kept / "answers.json").write_text(damage)
    assert not lesson("05").answers
    assert lesson("05").passed


def test_page_00_shows_a_new_learner_an_empty_table(monkeypatch):
    monkeypatch.setenv("LAB_PROGRESS", "")
    progress.forget()
    assert "✓" not in my_progress()
    assert "· chunk_bounds" in my_progress()._repr_html_()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_says_it_in_the_readers_language(kept, monkeypatch, capsys, lang):
    monkeypatch.setattr(i18n, "_chosen", lang)
    written = kept / "all.json"
    assert main(["progress", "05", "--figures", "--lang", lang, "--json", str(written)]) == 0
    said = capsys.readouterr().out
    assert overview([lesson("05")]) in said
    assert ("sizes of the chunks" if lang == "en" else "各块大小") in said
    assert "3 + 3 + 3 + 3" in said
    assert str(kept) in said
    entry = json.loads(written.read_text(encoding="utf-8"))["05"]
    assert (entry["answered"], entry["right"]) == (2, 1)
    assert entry["exercises"]["chunk_bounds"]["passed"]
    assert not entry["exercises"]["bucketed"]["passed"]


def test_an_unknown_lesson_is_one_sentence(kept, capsys):
    assert main(["progress", "55"]) == 2
    assert "there is no lesson 55" in capsys.readouterr().err


def test_it_needs_no_torch(kept):
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from lab_utils.__main__ import main; sys.exit(main(['progress', '--figures']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "✓ chunk_bounds" in done.stdout
