"""More ranks than the machine holds are refused before one is started, a full disk is said, and
ranks import what their parent imports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from faults import ENVIRONMENT, PATIENCE_S, processes_left
from quiet import on_time

from lab_utils import TrainConfig, estimate, launch, machine
from lab_utils.config import ConfigError
from lab_utils.launch import LaunchError, room


def test_a_thousand_ranks_are_refused_with_the_number_that_would_fit():
    begun = time.monotonic()
    with pytest.raises(ConfigError, match=rf"1,000 ranks do not fit .*: {room.most_ranks()} would"):
        launch(os.getpid, 1000)
    assert processes_left() == []
    on_time(time.monotonic() - begun < 1, "asked before anything is started")


def test_force_starts_them_all_the_same(monkeypatch):
    monkeypatch.setattr(room, "RANK_BYTES", 2 * machine.free_memory())
    with pytest.raises(ConfigError, match="2 ranks do not fit this machine: 1 would"):
        launch(os.getpid, 2)
    assert len(set(launch(os.getpid, 2, force=True))) == 2


def test_the_memory_of_a_container_counts(tmp_path):
    for name, text in {"memory.max": "1000", "memory.current": "900"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "memory.stat").write_text("anon 850\ninactive_file 50\n")
    assert machine.free_memory(tmp_path) == 150
    (tmp_path / "memory.max").write_text("max")
    assert machine.free_memory(tmp_path) > 10**6


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000"}, 1),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000", "cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({}, None),
    ],
)
def test_the_time_that_a_container_gets_counts_as_cores(tmp_path, files, expected):
    """None: all that this process may run on."""
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    everywhere = len(os.sched_getaffinity(0))
    assert machine.cores(tmp_path) == (everywhere if expected is None else expected)


def test_threads_of_a_rank_follow_the_environment_then_the_cores(monkeypatch):
    """A server that many learners share sets OMP_NUM_THREADS, and so does Binder's start script."""
    monkeypatch.setattr(machine, "cores", lambda: 8)
    for told, expected in {"1": 1, "3,2": 3, "": 4, "0": 4, "many": 4}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", told)
        assert machine.threads_a_rank(2) == expected, told
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert launch(os.getenv, 1, "OMP_NUM_THREADS") == ["5"]


def test_too_many_threads_are_refused():
    with pytest.raises(ConfigError, match="threads must be at most"):
        launch(os.getpid, 2, threads=100_000)


def run(script: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
        **options,
    )


def test_no_room_for_the_records_is_said_and_kills_nobody():
    """A limit on the size of files stands for a disk that is full: the same refusal."""
    done = run(
        "import resource\nfrom lab_utils import launch\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "try:\n    launch(int, 2)\nexcept OSError as error:\n    print(error)\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "set TMPDIR to another folder" in done.stdout


def test_ranks_import_what_their_parent_imports(tmp_path):
    """No other clone, and no file with a standard module's name, from the working directory."""
    (tmp_path / "lab_utils").mkdir()
    for trap in ("timeit.py", "lab_utils/__init__.py"):
        (tmp_path / trap).write_text("raise SystemExit('imported from the working directory')\n")
    script = tmp_path.parent / "elsewhere.py"
    script.write_text(
        "import timeit\nfrom lab_utils import launch\n"
        "def home():\n    import lab_utils, timeit\n"
        "    return lab_utils.__file__, timeit.__file__\n"
        "print(set(launch(home, 2)) == {home()})\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
    )
    assert done.stdout == "True\n", done.stdout + done.stderr


def test_the_verbs_may_be_globals_of_a_rank_s_function():
    config = TrainConfig.of("tiny")
    assert launch(lambda: (launch.__name__, estimate(config).parameters), 1) == [
        ("lab_utils.launch", estimate(config).parameters)
    ]


def test_a_rank_that_was_asked_to_end_did_not_crash():
    with pytest.raises(LaunchError) as caught:
        launch(lambda: os.kill(os.getpid(), signal.SIGTERM), 1, quiet=True)
    assert "SIGTERM" in str(caught.value)
    assert "Something outside asked it to end" in str(caught.value)
