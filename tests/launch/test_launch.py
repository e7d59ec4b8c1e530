"""launch, with real ranks: results, output, events, surroundings, and what it refuses."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.distributed as dist
from faults import ENVIRONMENT, PATIENCE_S, processes_left
from quiet import on_time

from lab_utils import machine
from lab_utils.i18n import language, set_language
from lab_utils.launch import LaunchError, emit, launch


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    assert processes_left() == []


@pytest.mark.parametrize("world", [1, 2, 4])
def test_results_by_rank(world):
    def sum_of_ranks(scale):
        x = torch.tensor([float(dist.get_rank()) * scale])
        dist.all_reduce(x)
        return dist.get_rank(), x

    results = launch(sum_of_ranks, world, 10)
    assert [rank for rank, _ in results] == list(range(world))
    assert all(x.item() == 10 * sum(range(world)) for _, x in results)


def test_package_is_the_verb():
    import lab_utils

    assert lab_utils.launch(lambda: dist.get_world_size(), 2) == [2, 2]


def test_output_is_prefixed_in_order_and_complete(capsys):
    def talk():
        for i in range(3):
            print("line", i)
        os.write(2, "来自文件描述符 2\n".encode())
        print("two\nlines", "and no newline at the end", end="")

    launch(talk, 2)
    said = capsys.readouterr().out.splitlines()
    for rank in (0, 1):
        mine = [line for line in said if line.startswith(f"[rank {rank}] ")]
        assert mine == [
            f"[rank {rank}] {x}"
            for x in (
                "line 0",
                "line 1",
                "line 2",
                "来自文件描述符 2",
                "two",
                "lines and no newline at the end",
            )
        ]
    assert len(said) == 12


def test_a_flood_of_output_arrives_whole(capsys):
    launch(lambda: [print("x" * 200) for _ in range(5000)] and None, 2)
    assert capsys.readouterr().out.count("x" * 200 + "\n") == 10_000


def test_output_before_a_crash_is_not_lost(capsys):
    def last_words():
        print("last words")
        if dist.get_rank() == 0:
            os._exit(3)
        time.sleep(60)  # or this rank's end might forestall the other's words

    with pytest.raises(LaunchError):
        launch(last_words, 2)
    assert "[rank 0] last words\n" in capsys.readouterr().out


def test_output_and_events_arrive_live(capsys):
    def slow():
        emit("started")
        print("started")
        time.sleep(1)

    heard = []
    begun = time.time()
    launch(slow, 2, on_event=lambda rank, value: heard.append((rank, value, time.time())))
    assert sorted(h[:2] for h in heard) == [(0, "started"), (1, "started")]
    assert time.time() - begun > 1
    ahead = time.time() - max(at for *_, at in heard)
    on_time(ahead > 0.8, f"events came {ahead:.2f} s before the end, of 1 s; 0.8 s wanted")
    emit("outside of a launch: nothing happens")


def test_quiet(capsys):
    launch(lambda: print("hidden"), 2, quiet=True)
    assert capsys.readouterr().out == ""


def test_an_error_in_on_event_ends_the_launch():
    def forever():
        emit(1)
        time.sleep(3600)

    with pytest.raises(ZeroDivisionError):
        launch(forever, 2, on_event=lambda rank, value: 1 / 0)


def test_surroundings_follow_the_parent(tmp_path, monkeypatch):
    (tmp_path / "mine_only.py").write_text("answer = 42")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LAB_TEST_VARIABLE", "set after the server was started")

    def look():
        import mine_only

        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
        return (
            mine_only.answer,
            os.getcwd(),
            os.environ["LAB_TEST_VARIABLE"],
            language(),
            torch.get_num_threads(),
            [os.environ[n] for n in names],
        )

    set_language("zh")
    try:
        second = launch(look, 2, threads=3)[1]
    finally:
        set_language("en")
    assert second == (
        42,
        str(tmp_path),
        "set after the server was started",
        "zh",
        3,
        ["1", "1", "2", "2", "127.0.0.1"],
    )
    assert launch(torch.get_num_threads, 2) == [max(1, machine.cores() // 2)] * 2


def test_script_without_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from lab_utils.launch import launch\nprint('read once')\n"
        "class Point:\n    def __init__(self, x): self.x = x\n"
        "def f():\n    import torch.distributed as dist\n    return Point(dist.get_rank())\n"
        "print([p.x for p in launch(f, 2)], __file__, __spec__)\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
    )
    assert done.stdout.splitlines() == ["read once", f"[0, 1] {script} None"], done.stderr


def test_traceback_is_the_users_own():
    def inner():
        raise KeyError("missing")

    def outer():
        try:
            torch.nn.Linear(2, 2)(torch.ones(3))
        except RuntimeError as error:
            raise ValueError("wrong size") from error

    with pytest.raises(LaunchError) as caught:
        launch(outer, 2)
    text = caught.value.traceback
    assert "torch.nn.Linear(2, 2)(torch.ones(3))" in text
    assert "direct cause" in text
    assert text.rstrip().endswith("ValueError: wrong size")
    assert not any(
        word in text for word in ("supervise.py", "worker.py", "module.py", "multiprocessing")
    )
    assert caught.value.ranks == (0, 1), "both raised the same, and both are named"


def test_exceptions_that_cannot_travel():
    class Odd(Exception):
        def __init__(self, a, b):
            super().__init__(a)
            self.lock = threading.Lock()

    def raise_odd():
        raise Odd("odd", 1)

    with pytest.raises(LaunchError, match="raised .*Odd: odd"):
        launch(raise_odd, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 2), "needs a function"),
        ((print, 0), "nproc must be .* from 1"),
        ((print, 2.0), "nproc must be"),
        ((print, True), "nproc must be"),
    ],
)
def test_refuses_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        launch(*arguments)


def test_refuses_bad_options():
    for options in ({"timeout": 0}, {"timeout": None}, {"threads": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            launch(print, 2, **options)


def test_refuses_what_cannot_be_sent():
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be sent to the ranks"):
        launch(lambda: lock, 2)
    with pytest.raises(LaunchError, match="cannot be sent back"):
        launch(threading.Lock, 2)
