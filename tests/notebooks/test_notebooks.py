"""Every lesson and solution runs again and prints what it says; every lab stops, kindly, at its first exercise.

Each notebook runs in one language (odd and even numbers alternate), in both when LAB_BOTH_LANGUAGES is set.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from lab_utils.course.build_run import kernel_environment

REPOSITORY = Path(__file__).resolve().parents[2]
CELL_TIMEOUT_S = 120


def notebooks(*forms: str) -> list[object]:
    """Paths to run, as test parameters. Solutions take the other language than the lesson of their number."""
    both = bool(os.environ.get("LAB_BOTH_LANGUAGES"))
    found = []
    for form in forms:
        for path in sorted((REPOSITORY / form).glob("*/[0-9][0-9]_*.ipynb")):
            lang = ("en", "zh")[(int(path.stem[:2]) + (form == "solutions")) % 2]
            if both or path.parent.name == lang:
                found.append(pytest.param(path, id=str(path.relative_to(REPOSITORY).with_suffix(""))))
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", notebooks("lessons", "solutions"))
def test_prints_the_same_again(path):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", f"--nbval-cell-timeout={CELL_TIMEOUT_S}",
               f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}", str(path)]
    done = subprocess.run(command, cwd=REPOSITORY, env=kernel_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:]
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert f"{sum('nbval-skip' not in cell.metadata.get('tags', []) for cell in code)} passed" in done.stdout


@pytest.mark.parametrize("path", notebooks("labs"))
def test_the_lab_stops_at_its_first_exercise_with_a_sentence(path):
    lab = nbformat.read(path, as_version=4)
    exercise = next(found[1] for cell in lab.cells if (found := re.search(r'todo\("([^"]+)"\)', cell.source)))
    with pytest.raises(CellExecutionError):
        NotebookClient(lab, timeout=CELL_TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute(env=kernel_environment())
    stopped = [cell for cell in lab.cells if cell.cell_type == "code" and cell.execution_count][-1]
    said = "\n".join(next(output for output in stopped.outputs if output.output_type == "error").traceback)
    assert exercise in said
    assert {"en": "YOUR CODE HERE", "zh": "在此处编写代码"}[path.parent.name] in said
    assert "Traceback" not in said
    assert "File " not in said
