"""`new` writes a lesson, a tool and a lab that build and pass as they are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from lab_utils.course.new import FILES, NewError, begin_lesson

REPOSITORY = Path(__file__).resolve().parents[2]
# the first test builds six notebooks: seconds on a quiet machine
pytestmark = pytest.mark.timeout(1200)


def copy_of_the_house(root: Path) -> Path:
    """A repository without lessons."""
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "lab_utils", root / "lab_utils", ignore=without)
    shutil.copytree(REPOSITORY / "lessons/source/skeleton", root / "lessons/source/skeleton")
    shutil.copytree(REPOSITORY / "tests/labs", root / "tests/labs", ignore=without)
    shutil.copytree(REPOSITORY / "tests/widgets", root / "tests/widgets", ignore=without)
    shutil.copy(REPOSITORY / "tests/pairs.py", root / "tests")
    shutil.copy(REPOSITORY / "pyproject.toml", root)
    return root


def python(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=600
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A house in which lesson 98 was begun and built."""
    root = copy_of_the_house(tmp_path_factory.mktemp("house"))
    done = python(root, "-m", "lab_utils", "new", "98", "odd_shares", "--title", "Odd", "奇数")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(FILES) + 1
    done = python(root, "-m", "lab_utils", "build")
    assert done.returncode == 0, done.stderr
    return root


def test_the_lesson_and_the_lab_are_whole(made):
    lesson = nbformat.read(made / "lessons/zh/98_odd_shares.ipynb", as_version=4)
    assert lesson.cells[0].source.startswith("# 98 · 奇数")
    solution = nbformat.read(made / "solutions/en/98_odd_shares.ipynb", as_version=4)
    said = next(cell for cell in solution.cells if cell.id == "share-check").outputs
    assert "✓ share_odd_shares: passed" in json.dumps(said, ensure_ascii=False)
    lab = nbformat.read(made / "labs/en/98_odd_shares.ipynb", as_version=4)
    assert any("YOUR CODE HERE" in cell.source for cell in lab.cells)


def test_its_planted_answers_and_its_tool_pass_the_tests_of_all(made):
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = python(made, *command, "tests/labs/test_labs.py", "-k", "share_odd_shares")
    assert done.returncode == 0, done.stdout[-4000:]
    assert "skipped" not in done.stdout
    done = python(made, *command, "tests/widgets/test_all_tools.py", "-k", "odd_shares")
    assert done.returncode == 0, done.stdout[-4000:]


def test_the_sources_keep_the_house_style(made):
    ruff = ["-m", "ruff"]
    new = ["lab_utils/widgets/odd_shares", "lab_utils/course/checks/lab98"]
    for verb in (["check"], ["format", "--check"]):
        done = python(made, *ruff, *verb, *new, "lab_utils/course/check.py")
        assert done.returncode == 0, done.stdout


def test_another_lesson_makes_no_notebook_stale(made):
    assert python(made, "-m", "lab_utils", "new", "97", "even_shares").returncode == 0
    done = python(made, "-m", "lab_utils", "build", "--check")
    assert "executed with another lab_utils" not in done.stderr
    assert "97_even_shares.ipynb is missing" in done.stderr


@pytest.mark.parametrize(
    ("number", "name", "sentence"),
    [
        ("7", "shares", "two digits"),
        ("07", "Odd Shares", "a Python name"),
        ("00", "shares", "is there already"),
        ("07", "zero", "is there already"),
    ],
)
def test_nothing_is_written_over(number, name, sentence):
    with pytest.raises(NewError, match=sentence):
        begin_lesson(REPOSITORY, number, name)


def test_a_lab_by_itself_has_no_lesson_and_no_tool(tmp_path):
    (tmp_path / "lab_utils/course").mkdir(parents=True)
    shutil.copy(REPOSITORY / "lab_utils/course/check.py", tmp_path / "lab_utils/course")
    files = begin_lesson(tmp_path, "98", "odd_shares", lab_only=True)
    assert not (tmp_path / "lessons").exists()
    assert not (tmp_path / "lab_utils/widgets").exists()
    assert tmp_path / "solutions/source/98_odd_shares.md" in files
    assert 'Home("lab98", "share")' in (tmp_path / "lab_utils/course/check.py").read_text()


def test_it_needs_a_house(tmp_path):
    with pytest.raises(NewError, match="holds no lab_utils/course/check.py"):
        begin_lesson(tmp_path, "07", "shares")
    assert not list(tmp_path.iterdir())
