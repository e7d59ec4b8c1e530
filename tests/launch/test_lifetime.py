"""How fast ranks come, and that they go: with their parent, with what they started, leaving nothing
behind."""

import statistics
import subprocess
import sys
import tempfile
import time

import psutil
import pytest
import torch
import torch.distributed as dist
from faults import ENVIRONMENT, PATIENCE_S
from quiet import on_time

from lab_utils.launch import LaunchError, emit, launch

LAUNCHING = """
import os, time, torch, torch.distributed as dist
from lab_utils.launch import launch, emit

class Endless(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield torch.ones(1)

def busy():
    loader = iter(torch.utils.data.DataLoader(Endless(), num_workers=1))
    next(loader)
    emit("up")
    if dist.get_rank() == 0:
        time.sleep(3600)
    dist.all_reduce(torch.ones(1))

launch(busy, 2, on_event=lambda rank, value: print(value, flush=True))
"""


def still_alive(processes, patience_s=60):
    """Those that never end, as far as patience goes. A zombie has ended; collecting orphans is
    init's affair, at its own pace."""

    def alive(process):
        try:
            return process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    give_up_at = time.time() + patience_s
    while time.time() < give_up_at and any(map(alive, processes)):
        time.sleep(0.02)
    return list(filter(alive, processes))


def test_second_launch_is_at_once():
    def first_collective():
        dist.all_reduce(torch.ones(4))
        return time.time()

    def seconds():
        called = time.time()
        return max(launch(first_collective, 2)) - called

    seconds()
    taken = [seconds() for _ in range(9)]
    said = (
        f"call to first finished all_reduce on 2 ranks: median {statistics.median(taken):.3f} s,"
        f" fastest {min(taken):.3f} s"
    )
    print(said)
    on_time(statistics.median(taken) <= 0.1, f"{said}, 0.1 s allowed")


def test_importing_launch_is_light():
    code = (
        "import sys, time; t = time.perf_counter(); import lab_utils.launch;"
        " print(time.perf_counter() - t); assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, check=True, env=ENVIRONMENT, timeout=PATIENCE_S, capture_output=True, text=True
    )
    on_time(float(done.stdout) < 0.3, f"{done.stdout.strip()} s to import it, of 0.3 s")


def test_all_end_with_a_killed_parent(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "t"
    script.write_text(LAUNCHING)
    folder.mkdir(exist_ok=True)  # a busy machine tries again
    environment = ENVIRONMENT | {"TMPDIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        said = [parent.stdout.readline() for _ in range(2)]
        family = psutil.Process(parent.pid).children(recursive=True)
        folders = list(folder.glob("lab_launch_*"))
        parent.kill()
    killed_at = time.time()
    alive = still_alive(family)
    seconds = time.time() - killed_at
    assert said == ["up\n", "up\n"]
    assert len(family) >= 6, (
        "the server, two ranks, their two loader workers, Python's resource tracker"
    )
    assert alive == []
    assert len(folders) == 1
    assert not folders[0].exists()
    assert list(folder.glob("pymp-*")) == [], "the folder of the server's socket"
    on_time(seconds < 2, f"{seconds:.1f} s until all had ended, of 2 s")


def test_what_a_rank_started_ends_with_it():
    def start_a_child():
        child = subprocess.Popen(["sleep", "3600"])
        emit(child.pid)
        dist.barrier()
        raise ValueError("and now an error")

    children = []
    with pytest.raises(LaunchError):
        launch(start_a_child, 2, on_event=lambda rank, pid: children.append(psutil.Process(pid)))
    assert len(children) == 2
    assert still_alive(children) == []


def test_nothing_piles_up(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    launch(dist.get_rank, 2)
    before = psutil.Process().num_fds()
    for _ in range(5):
        launch(dist.get_rank, 2)
        with pytest.raises(LaunchError):
            launch(lambda: 1 / 0, 2)
    assert psutil.Process().num_fds() == before
    assert list(tmp_path.glob("lab_launch_*")) == []


def test_interrupt_while_the_server_starts(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, threading\nfrom lab_utils.launch import launch\n"
        "threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    launch(os.getpid, 2)\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
        "print(len(launch(os.getpid, 2)))\n"
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=ENVIRONMENT,
    )
    assert done.stdout.splitlines() == ["interrupted", "2"], done.stderr
