"""Every lesson and solution runs again and prints what it says; every lab stops, kindly, at its
first exercise.

In `make test-all`, and so in CI, every lab runs in both languages, every lesson in one, for its
code is the same in both and the build has executed either, and every third solution, for its
answers are handed in to the checks besides (`LAB_EXHAUSTIVE=2` runs all). In `make test` the first
lesson runs, the first solution and the first lab, each in one language: what another prints was
seen by the build, and `build --check` refuses it as soon as anything in its import closure has
changed.
None runs again where this machine has just executed it: by the build or by this test, with the same
libraries, code and outputs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from pairs import EVERYTHING, EXHAUSTIVE

from lab_utils.course.build_record import executed_here, remember_executed
from lab_utils.course.build_run import kernel_environment

REPOSITORY = Path(__file__).resolve().parents[2]
CELL_TIMEOUT_S = 120


def notebooks(*forms: str) -> list[object]:
    """Paths to run, as test parameters. Solutions take the other language than the lesson of their
    number."""
    found = []
    for form in forms:
        paths = sorted((REPOSITORY / form).glob("*/[0-9][0-9]_*.ipynb"))
        names = sorted({path.stem for path in paths})
        runs = names[:: 3 if form == "solutions" else 1] if EXHAUSTIVE else names[:1]
        for path in paths:
            lang = ("en", "zh")[(int(path.stem[:2]) + (form == "solutions")) % 2]
            here = path.parent.name == lang and path.stem in runs
            if here or EVERYTHING or (EXHAUSTIVE and form == "labs"):
                found.append(
                    pytest.param(path, id=str(path.relative_to(REPOSITORY).with_suffix("")))
                )
    return found


TODO = re.compile(r'todo\("([^"]+)"\)')


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=REPOSITORY, env=kernel_environment(), capture_output=True, text=True
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", notebooks("lessons", *(["solutions"] if EXHAUSTIVE else [])))
def test_prints_the_same_again(path, tmp_path):
    if executed_here(path) and not EXHAUSTIVE:
        pytest.skip("this machine has executed it with this code, these libraries and outputs")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--nbval",
        f"--nbval-cell-timeout={CELL_TIMEOUT_S}",
        f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}",
        shutil.copy(path, tmp_path),  # with no file of an earlier run beside it
    ]
    done = _run(command)
    assert done.returncode == 0, done.stdout[-8000:]
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert (
        f"{sum('nbval-skip' not in cell.metadata.get('tags', []) for cell in code)} passed"
        in done.stdout
    )
    remember_executed(path)


@pytest.mark.parametrize("path", notebooks("labs"))
def test_the_lab_stops_at_its_first_exercise_with_a_sentence(path):
    lab = nbformat.read(path, as_version=4)
    todos = [found[1] for cell in lab.cells if (found := TODO.search(cell.source))]
    if not todos:
        pytest.skip("nothing is to be filled in: see the next test")
    [exercise, *_] = todos
    with pytest.raises(CellExecutionError):
        NotebookClient(
            lab,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(path.parent)}},
        ).execute(env=kernel_environment())
    stopped = [cell for cell in lab.cells if cell.cell_type == "code" and cell.execution_count][-1]
    said = "\n".join(
        next(output for output in stopped.outputs if output.output_type == "error").traceback
    )
    assert exercise in said
    assert {"en": "YOUR CODE HERE", "zh": "在此处编写代码"}[path.parent.name] in said
    assert "Traceback" not in said
    assert "File " not in said


HANDS_OUT_FAULTS = [
    path
    for path in sorted((REPOSITORY / "labs/zh").glob("[0-9][0-9]_*.ipynb"))
    if not TODO.search(path.read_text(encoding="utf-8").replace('\\"', '"'))
]


@pytest.mark.skipif(not EXHAUSTIVE, reason="half a minute of torchrun")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", HANDS_OUT_FAULTS, ids=lambda path: path.stem)
def test_a_lab_that_hands_out_faults_runs_to_its_end_and_each_check_says_not_yet(path, tmp_path):
    lab = nbformat.read(path, as_version=4)
    NotebookClient(
        lab,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute(env=kernel_environment())
    checks = [cell for cell in lab.cells if cell.source.startswith("check.")]
    said = [cell.outputs[-1].data["text/plain"] for cell in checks]
    assert said
    assert all(words.startswith("✗") and "还没有通过" in words for words in said), said


def test_there_is_a_lab_that_hands_out_faults():
    assert [path.stem for path in HANDS_OUT_FAULTS] == ["19_debugging"]
