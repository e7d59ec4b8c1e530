"""A rank under torchrun leaves only when no thread of gloo could still ask for the interpreter."""

from __future__ import annotations

import ctypes
import threading
import time
from pathlib import Path

import pytest

from lab_utils.launch.gloo_threads import let_gloo_rest


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(),
    reason="the states of threads are listed in /proc on Linux only",
)
@pytest.mark.parametrize(
    ("name", "waited_for"), [(b"pt_gloo_runloop", True), (b"some_other", False)]
)
def test_a_thread_of_gloo_that_is_at_work_is_waited_for(name, waited_for):
    begun, ended = threading.Event(), []

    def work() -> None:
        ctypes.CDLL(None).prctl(15, name, 0, 0, 0)  # PR_SET_NAME: what /proc calls this thread
        begun.set()
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            sum(range(1000))
        ended.append(True)
        time.sleep(0.1)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    let_gloo_rest(seconds=5.0)
    assert bool(ended) == waited_for
    thread.join()


def test_patience_ends(monkeypatch):
    monkeypatch.setattr("lab_utils.launch.gloo_threads._at_work", lambda: True)
    began = time.monotonic()
    let_gloo_rest(seconds=0.05)
    assert 0.05 <= time.monotonic() - began < 1.0
