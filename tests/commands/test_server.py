"""`doctor --server`: what a class needs, held against the machine; what one session takes is the
record's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab_utils import i18n, machine, server
from lab_utils.__main__ import main

MEASURED = Path(__file__).resolve().parents[1] / "measured/session.json"
LESSONS = Path(__file__).resolve().parents[2] / "lessons/en"


@pytest.fixture
def carries(monkeypatch):
    """A machine with these cores and bytes free, and no GPU."""

    def machine_of(cores: int, free: float, gpus: int = 0) -> None:
        monkeypatch.setattr(machine, "cores", lambda: cores)
        monkeypatch.setattr(machine, "free_memory", lambda: int(free))
        monkeypatch.setattr(machine, "free_gpu_memory", lambda: [80 * 10**9] * gpus)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    return machine_of


def short_of(learners: int) -> list[str]:
    return [finding.what for finding in server.findings(learners) if finding.remedy]


def test_a_session_is_what_the_hungriest_lesson_was_measured_to_take():
    record = json.loads(MEASURED.read_text(encoding="utf-8"))
    lessons = record["lessons"]
    assert record["jupyter_server_bytes"] <= server.SERVER_BYTES
    assert record["jupyter_server_bytes"] > 0.75 * server.SERVER_BYTES
    most = {key: max(one[key] for one in lessons.values()) for key in lessons["00_start"]}
    assert most["bytes"] <= server.SESSION_BYTES < 1.2 * most["bytes"]
    assert most["processes"] <= server.SESSION_PROCESSES < 1.5 * most["processes"]
    assert most["threads"] <= server.SESSION_THREADS < 1.5 * most["threads"]
    assert most["files"] <= server.SESSION_FILES < 1.5 * most["files"]
    assert {path.stem for path in LESSONS.glob("[0-9]*.ipynb")} == {*lessons}, "record it anew"


def test_a_copy_of_the_notebooks_is_as_large_as_is_said():
    root = LESSONS.parents[1]
    pages = [p for room in ("lessons", "labs") for p in (root / room).glob("*/*.ipynb")]
    assert sum(p.stat().st_size for p in pages) == pytest.approx(server.COPY_BYTES, rel=0.15)


def test_a_machine_that_carries_the_class_has_no_shortage(carries):
    carries(cores=64, free=128e9)
    assert short_of(30) == []


@pytest.mark.parametrize(
    ("cores", "free", "gpus", "short"),
    [(4, 128e9, 0, "cores"), (64, 16e9, 0, "free memory"), (64, 128e9, 4, "GPUs")],
)
def test_each_shortage_is_named_with_its_remedy(carries, cores, free, gpus, short):
    carries(cores, free, gpus)
    assert short_of(30) == [short]


def test_threads_that_nobody_limits_are_a_shortage(carries, monkeypatch):
    carries(cores=64, free=128e9)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert short_of(30) == ["OMP_NUM_THREADS"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_says_it(carries, monkeypatch, capsys, lang):
    carries(cores=4, free=16e9)
    monkeypatch.setattr(i18n, "_chosen", None)  # so that it is as before in the end
    assert main(["doctor", "--server", "--lang", lang]) == 0
    said = capsys.readouterr().out
    assert ("30 learners may need 54.6 GB" if lang == "en" else "30 人若同时运行") in said
    assert main(["doctor", "--server", "0"]) == 2
