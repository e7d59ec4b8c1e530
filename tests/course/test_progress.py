"""What is kept of a learner's work: hints that go on after a restart, answers that come back, and
files that nobody has to repair."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab_utils.course import Todo, check, earlier, progress

ANSWER = """
def half(numel, n):
    return numel // n, numel % n

def chunk_bounds(numel, n):
    size, longer = half(numel, n)
    ends = [r * size + min(r, longer) for r in range(n + 1)]
    return list(zip(ends, ends[1:]))
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_PROGRESS", str(tmp_path / "progress"))
    return tmp_path / "progress"


def as_cell(source: str, name: str):
    """What a notebook's cell defines: its source is known under a name that is no file."""
    import linecache

    namespace = {"__name__": "__main__"}
    linecache.cache["<ipython-cell>"] = (len(source), None, source.splitlines(True), "")
    exec(compile(source, "<ipython-cell>", "exec"), namespace)
    return namespace[name]


def test_a_pass_keeps_figures_and_the_answers_whole_cell_and_another_kernel_takes_it_back(kept):
    assert check.chunk_bounds(as_cell(ANSWER, "chunk_bounds")).passed
    assert progress.was_passed("chunk_bounds")
    assert progress.measured_in("chunk_bounds")["sizes of the chunks"][0] == "3 + 3 + 3 + 3"
    assert progress.saved_answer("chunk_bounds") == ANSWER
    code = "from lab_utils.course import earlier; print(earlier('chunk_bounds')(7, 3))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[(0, 3), (3, 5), (5, 7)]"


def test_what_this_kernel_has_comes_before_what_was_saved(kept):
    progress.passed("chunk_bounds", ["16"], ANSWER)
    assert eval("earlier('chunk_bounds')", {"earlier": earlier, "chunk_bounds": "mine"}) == "mine"


@pytest.mark.parametrize("source", [None, "def chunk_bounds(:", "x = 1"])
def test_an_answer_that_is_not_there_ends_in_a_kind_word(kept, source):
    if source:
        progress.passed("chunk_bounds", [], source)
    with pytest.raises(Todo, match=r"check\.chunk_bounds\(chunk_bounds\)"):
        earlier("chunk_bounds")


def test_hints_go_on_after_a_restart_and_a_failure_takes_no_pass_away(kept):
    progress.passed("chunk_bounds", ["16"], ANSWER)
    failing = "from lab_utils.course import check\ndef f(numel, n):\n    return [{}]\n"
    numbers = []
    for attempt in (1, 1, 2):
        code = failing.format(attempt) + "print(check.chunk_bounds(f).hint.number)"
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        numbers.append(ran.stdout.strip())
    assert numbers == ["1", "1", "2"]
    assert progress.was_passed("chunk_bounds")


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"attempts": 3}', '{"attempts": {"c": 3}}'])
def test_a_damaged_file_counts_as_empty_and_is_written_anew(kept, damage):
    kept.mkdir()
    (kept / "e.json").write_text(damage)
    assert progress.attempts("e", "c") == []
    assert progress.saved_answer("e") is None
    progress.add_attempt("e", "c", "d1")
    progress.add_attempt("e", "c", "d1")
    progress.add_attempt("e", "c", "d2")
    assert progress.attempts("e", "c") == ["d1", "d2"]
    assert json.loads((kept / "e.json").read_text())["attempts"] == {"c": ["d1", "d2"]}
    assert [path.name for path in kept.iterdir()] == ["e.json"]


def test_a_folder_that_cannot_be_written_costs_the_memory_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_PROGRESS", str(tmp_path / "file" / "progress"))
    progress.add_attempt("e", "c", "d")
    assert progress.attempts("e", "c") == ["d"]


def test_the_folder_is_beside_the_lessons_or_here(tmp_path, monkeypatch):
    monkeypatch.delenv("LAB_PROGRESS")
    (tmp_path / "course/lessons/en").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "course/lessons/en")
    assert progress.folder() == tmp_path / "course/progress"
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert progress.folder() == tmp_path / "elsewhere/progress"
    monkeypatch.setenv("LAB_PROGRESS", "")
    assert progress.folder() is None
