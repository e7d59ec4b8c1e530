"""Lesson 00 on Colab and on Binder: installed by the very steps that each takes, in an environment
of its own, and run to its end. Minutes and hundreds of megabytes from the package index, so that
neither `make test` nor CI runs it: LAB_EXHAUSTIVE=2 does."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import nbformat
import pytest
from clouds import REPOSITORY, RUN, environment, repository

pytestmark = [
    pytest.mark.skipif(os.environ.get("LAB_EXHAUSTIVE") != "2", reason="LAB_EXHAUSTIVE=2 runs it"),
    pytest.mark.timeout(3600),
]
LESSON = "lessons/en/00_start.ipynb"


def run(command: list[str | Path], **options: object) -> str:
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def on_path(python: Path, **more: str) -> dict[str, str]:
    """The surroundings of somebody whose shell has this python first, and nothing of ours."""
    ours = ("PYTHON", "LAB_", "PLOTLY", "VIRTUAL_ENV", "MPL")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"PATH": f"{python.parent}{os.pathsep}{kept['PATH']}"} | more


def assert_runs_as_built(run_: Path) -> None:
    """Every cell printed what the built lesson holds, but those that cannot twice."""
    built, ran = (nbformat.read(path, as_version=4) for path in (REPOSITORY / LESSON, run_))
    words = lambda cell: [  # noqa: E731
        output.get("text") or output.get("data", {}).get("text/plain") for output in cell.outputs
    ]
    compared = 0
    for was, now in zip(built.cells, ran.cells, strict=True):
        if was.cell_type == "code" and "nbval-ignore-output" not in was.metadata.get("tags", []):
            assert words(now) == words(was), was.id
            compared += len(was.outputs)
    assert compared > 10


def test_colab(tmp_path):
    """A torch is there and no lab_utils. The set-up cell of the lesson, alone, installs it from the
    project's address, which git is told to look up in a copy of this repository."""
    python = environment(tmp_path / "colab", "torch")
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        address = tomllib.load(file)["project"]["urls"]["Repository"]
    copy = repository(tmp_path / "github")
    (tmp_path / ".gitconfig").write_text(f'[url "file://{copy}"]\n  insteadOf = {address}\n')
    # Colab has a kernel, and in it the module by which a notebook knows where it is
    run([python, "-m", "pip", "install", "-q", "ipykernel", "nbclient"])
    for file in ("google/__init__.py", "google/colab/__init__.py"):
        (tmp_path / "colab_modules" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "colab_modules" / file).write_text("")
    startup = tmp_path / "ipython/profile_default/startup/00_colab.py"
    startup.parent.mkdir(parents=True)
    startup.write_text(
        f"import sys; sys.path.append({str(tmp_path / 'colab_modules')!r}); import google.colab\n"
    )
    content, out = tmp_path / "content", tmp_path / "ran.ipynb"
    content.mkdir()
    told = on_path(
        python,
        HOME=str(tmp_path),
        IPYTHONDIR=str(tmp_path / "ipython"),
        GIT_CONFIG_GLOBAL=str(tmp_path / ".gitconfig"),
    )
    before = run([python, "-c", "import torch; print(torch.__version__)"], env=told)
    run([python, "-c", RUN, REPOSITORY / LESSON, out, content], env=told, cwd=content)
    assert_runs_as_built(out)
    which = "import torch, lab_utils; print(torch.__version__); print(lab_utils.__file__)"
    version, home = run([python, "-c", which], env=told, cwd=content).split()
    assert version == before.strip(), "Colab's torch stays"
    assert Path(home).is_relative_to(tmp_path / "colab"), home


def test_binder(tmp_path):
    """conda's torch is stood in for by one of the package index; then postBuild as it is, and the
    lesson by way of `start`."""
    wanted = re.search(
        r"pytorch-cpu>=([\d.]+)", (REPOSITORY / "binder/environment.yml").read_text()
    )
    python = environment(tmp_path / "conda", "torch")
    copy, out = repository(tmp_path / "home"), tmp_path / "ran.ipynb"
    told = on_path(python, HOME=str(tmp_path))
    version = run([python, "-c", "import torch; print(torch.__version__)"], env=told)
    have, want = ([*map(int, re.findall(r"\d+", text)[:2])] for text in (version, wanted[1]))
    assert have >= want
    said = run([copy / "binder/postBuild"], env=told, cwd=copy)
    assert "✗" not in said
    lesson = copy / LESSON
    command = [copy / "binder/start", "python", "-c", RUN, lesson, out, lesson.parent]
    run(command, env=told, cwd=copy)
    assert_runs_as_built(out)
    threads = "import os; print(os.environ['OMP_NUM_THREADS'])"
    assert run([copy / "binder/start", "python", "-c", threads], env=told).strip() == "1"
    run(["jupyter", "lab", "--version"], env=told)
