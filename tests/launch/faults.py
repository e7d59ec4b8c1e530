"""Every way a rank can go wrong, done for real: shared by the tests and by fault_table.py. Ranks
import it, so it is light."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from lab_utils.launch import LaunchError, emit, launch

TIMEOUT_S = 2.0
# after which what a test started is taken to hang; a busy machine takes a minute to import torch
PATIENCE_S = 240.0
before_this_file: list[psutil.Process] = []
REPOSITORY = Path(__file__).parents[2]
# of the Pythons that the tests start
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPOSITORY)}


def _sum(numbers: int = 4) -> None:
    dist.all_reduce(torch.ones(numbers))


def _raise() -> None:
    raise ValueError("the loss is not a number")


def _hang() -> None:
    time.sleep(3600)


def _mismatched_op() -> None:
    dist.broadcast(torch.ones(4), src=0)
    _sum()


# what the culprit does, and the cause to be named
FAULTS: dict[str, tuple[Callable[[], None], str]] = {
    "raise": (_raise, "raised"),
    "sys.exit(3)": (lambda: sys.exit(3), "exited"),
    "os._exit(3)": (lambda: os._exit(3), "exited"),
    "SIGKILL": (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed"),
    "hang": (_hang, "hung"),
    "mismatched shape": (lambda: _sum(6), "mismatch"),
    "mismatched op": (_mismatched_op, "mismatch"),
    "early return": (lambda: None, "left"),
    "interrupt": (_hang, "interrupted"),
}


def misbehave(fault: str, culprit: int) -> None:
    """One good all-reduce, then the culprit does its worst while its peers enter another
    all-reduce."""
    _sum()
    if dist.get_rank() != culprit:
        _sum()
        return
    emit(time.time())
    FAULTS[fault][0]()


@dataclass
class Outcome:
    """What a fault led to."""

    error: LaunchError | None
    said: str
    # from the event (a hang: from the end of the timeout) to the error in the caller's hands
    seconds: float
    left: list[psutil.Process]


def provoke(fault: str, culprit: int, world: int) -> Outcome:
    """Launch, let the fault happen, and see what comes of it."""
    happened: list[float] = []

    def interrupt() -> None:
        happened.append(time.time())
        os.kill(os.getpid(), signal.SIGINT)

    def on_event(rank: int, at: float) -> None:
        if fault == "interrupt":
            threading.Timer(0.2, interrupt).start()
        else:
            happened.append(at + (TIMEOUT_S if fault == "hang" else 0))

    error = None
    said = "nothing"
    try:
        launch(misbehave, world, fault, culprit, timeout=TIMEOUT_S, on_event=on_event, quiet=True)
    except LaunchError as caught:
        error, said = caught, str(caught)
    except KeyboardInterrupt:
        said = "KeyboardInterrupt"
    return Outcome(error, said, time.time() - happened[0], processes_left())


def processes_left() -> list[psutil.Process]:
    """Our descendants but for the two servers that Python itself keeps until we end, and for what
    an earlier test file has left, of which that file's end warns (tests/conftest.py)."""

    def is_server(process: psutil.Process) -> bool:
        words = " ".join(process.cmdline())
        return (
            "forkserver import main" in words
            and process.ppid() == os.getpid()
            or "resource_tracker" in words
        )

    return [
        p
        for p in psutil.Process().children(recursive=True)
        if p.is_running() and p not in before_this_file and not is_server(p)
    ]
