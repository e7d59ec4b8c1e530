"""A rank's life: made ready, joined to its peers, the function run, the outcome sent. Runs in the
child only.

Importing this module must not import torch: the parent imports it too, to name the entry point.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import shutil
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from traceback import TracebackException
from typing import Any

import cloudpickle

from ..i18n import set_language, t


@dataclass(frozen=True)
class Job:
    """What every rank of one launch is told."""

    # private folder: the pickled call, the rendezvous, the records, the stacks
    where: Path
    nproc: int
    threads: int
    timeout: float  # seconds
    language: str
    environment: dict[str, str]
    # of the parent's multiprocessing, for what a rank starts in its turn (a DataLoader's workers)
    start_method: str | None


_SOCKET_NAME = 103  # bytes, on macOS; a few more on Linux
_send_lock = threading.Lock()
_control: Connection | None = None


def emit(value: Any) -> None:
    """Inside a rank: hand `value` to the parent's `on_event(rank, value)` at once. Does nothing
    outside a launch."""
    if _control is not None:
        _send("event", value)


def _send(kind: str, value: Any) -> None:
    message = cloudpickle.dumps((kind, value))
    with _send_lock:
        _control.send_bytes(message)


def main(job: Job, rank: int, control: Connection, output: Connection) -> None:
    """Entry point of a rank. It never returns: having sent its outcome it stays until the parent
    ends it.

    A rank that left at once would close its connections under its peers' hands, and theirs would
    look like the fault.
    """
    global _control
    _control = control
    # what the rank starts itself (loader workers) ends with it
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the parent's to handle
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _keep_sockets_in(job.where)
    for standard in (1, 2):
        os.dup2(output.fileno(), standard)
    output.close()
    sys.stdout, sys.stderr = (
        os.fdopen(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        for fd in (1, 2)
    )
    threading.Thread(target=_end_with_parent, args=(control, job.where), daemon=True).start()
    try:
        how, detail = "returned", _run(job, rank)
    except SystemExit as stop:
        how, detail = "exited", stop.code or 0
    except BaseException as error:
        how, detail = "raised", _outcome(error)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    ctypes.CDLL(None).fflush(None)  # what C libraries printed
    _send(how, detail)
    threading.Event().wait()


def _keep_sockets_in(folder: Path) -> None:
    """Where multiprocessing puts the sockets of what a rank starts (loader workers): a folder that
    it made itself would outlive a rank that is killed."""
    if len(os.fsencode(folder)) + len("/listener-12345678") <= _SOCKET_NAME:
        multiprocessing.current_process()._config["tempdir"] = str(folder)


def _run(job: Job, rank: int) -> bytes:
    """Returns the function's result, pickled."""
    set_language(job.language)
    multiprocessing.set_start_method(job.start_method, force=True)
    os.environ.clear()
    os.environ.update(
        job.environment
        | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(job.nproc),
            "LOCAL_WORLD_SIZE": str(job.nproc),
            "OMP_NUM_THREADS": str(job.threads),
        }
    )
    stack = os.open(job.where / f"stack{rank}", os.O_WRONLY)
    faulthandler.register(signal.SIGUSR1, file=stack)  # asked by the parent, when this rank hangs
    faulthandler.enable(file=stack)  # or when native code crashes

    import torch

    from .group import join
    from .intercept import install
    from .record import Recorder

    torch.set_num_threads(job.threads)
    install(Recorder(job.where / f"rank{rank}"))
    # gloo's own timeout is the backstop for what the record cannot see; ours, which can name the
    # culprit, comes first.
    join(init_method=f"file://{job.where}/rendezvous", timeout=job.timeout + 3)
    fn, args = cloudpickle.loads((job.where / "call").read_bytes())
    result = fn(*args)
    try:
        return cloudpickle.dumps(result)
    except Exception as error:
        raise TypeError(
            t(
                f"the function's result cannot be sent back ({error}): return numbers, text,"
                " tensors, or lists and dicts of them.",
                f"函数的返回值无法传回（{error}）：请返回数字、"
                f"文本、张量，或由它们组成的列表和字典。",
            )
        ) from None


def _outcome(error: BaseException) -> TracebackException:
    """The exception without its objects, to be printed by the parent, who knows the source of
    notebook cells."""
    outcome = TracebackException.from_exception(error, lookup_lines=False)
    with contextlib.suppress(Exception):
        cloudpickle.loads(cloudpickle.dumps(outcome))
        return outcome
    return TracebackException.from_exception(
        RuntimeError(f"{type(error).__name__}: {error}").with_traceback(error.__traceback__)
    )


def _end_with_parent(control: Connection, where: Path) -> None:
    """Wait for the end of file that the parent's death leaves, even by SIGKILL; then leave nothing
    behind."""
    with contextlib.suppress(EOFError, OSError):
        control.recv_bytes()
    shutil.rmtree(where, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
