"""One rank as its parent holds it: started, listened to, and ended.

Ranks are forked from a server that has torch loaded already, so a launch costs milliseconds from
the second one on. The server ends with this process, and so does every rank: each holds one end of
a pipe whose other end is only here.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker, util
from typing import Any

import cloudpickle
import psutil

from . import worker
from .diagnose import RankState
from .errors import echo_of, users_stack
from .record import Reader

_PRELOAD = ["torch", "torch.distributed", "torch._dynamo", "lab_utils.launch.preload"]
# the server's environment: the folder of its socket, which multiprocessing made
SERVERS_FOLDER = "LAB_SERVERS_FOLDER"
_STACK_S = 0.2  # to answer where a rank stands


def start_server() -> None:
    """See that the server runs that ranks are forked from. Its first start takes 2 s of imports in
    the background.

    An interrupt reaches the whole process group, and Python's server ignores it only after its
    imports: it would end under the launch that comes next. A blocked signal stays blocked in what
    is started meanwhile; `worker.main` unblocks it.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOAD)
    # before the mask is set: its start unblocks SIGINT at its end
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _servers_environment():
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _servers_environment() -> Iterator[None]:
    """What the server is started with: it imports from where this process does, and not from the
    folder that it happens to be started in; and it knows which folder to remove at its end, should
    this process be killed."""
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    wanted = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1", SERVERS_FOLDER: util.get_temp_dir()}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


class RankProcess:
    """One rank: its process, the pipes to it, its flight record, and what is known of its state."""

    def __init__(
        self, number: int, job: worker.Job, on_event: Callable[[int, Any], None] | None, quiet: bool
    ) -> None:
        self.number, self.state = number, RankState()
        self._on_event, self._quiet = on_event, quiet
        self._stack, self._rest = job.where / f"stack{number}", b""
        self._stack.touch()
        self.record = Reader(job.where / f"rank{number}")
        context = multiprocessing.get_context("forkserver")
        self.control, control = context.Pipe()
        self.output, output = context.Pipe(duplex=False)
        os.set_blocking(self.output.fileno(), False)
        self._given = (control, output)
        self.process = context.Process(target=worker.main, args=(job, number, *self._given))

    def start(self) -> None:
        self.process.start()
        for end in self._given:
            end.close()

    @property
    def sources(self) -> tuple[Any, ...]:
        """What becomes ready when the rank has something to say, or has died."""
        return self.output, self.control, self.process.sentinel

    def kill(self) -> None:
        """End the rank and whatever it has started."""
        # ends even a rank whose start was interrupted before its pid was known
        self.control.close()
        if self.process.pid is not None:
            self.process.kill()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Wait for the killed rank's end and print what it had still to say."""
        if self.process.pid is not None:
            self.process.join()
        self.print_output(all_of_it=True)
        self.output.close()
        self.record.close()
        self.process.close()

    def hear(self) -> None:
        """Take in what the rank has sent: output, messages, and last its death."""
        # asked first: what a dead rank sent is then sure to be there
        died = self.process.exitcode
        self.print_output()
        for kind, value in self._messages():
            self._heard(kind, value)
        if died is not None and self.state.end is None:
            self._ended("killed" if died < 0 else "exited", abs(died))

    def _messages(self) -> Iterator[tuple[str, Any]]:
        while True:
            try:
                if not self.control.poll():
                    return
                message = self.control.recv_bytes()
            # its end is closed, perhaps in the middle of a message
            except (EOFError, OSError):
                return
            yield cloudpickle.loads(message)

    def _heard(self, kind: str, value: Any) -> None:
        if kind == "event":
            if self._on_event:
                self._on_event(self.number, value)
            return
        self._ended(kind, value)
        if kind == "raised":
            self.state.echo = echo_of(value)

    def _ended(self, how: str, detail: Any) -> None:
        self.state.end, self.state.detail, self.state.at = how, detail, time.monotonic()

    def print_output(self, all_of_it: bool = False) -> None:
        """Print the complete lines that came, at the end the incomplete last one, too."""
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self.output.fileno(), 1 << 16):
                self._rest += piece
        lines, newline, self._rest = self._rest.rpartition(b"\n")
        if all_of_it:
            lines, newline, self._rest = lines + newline + self._rest, b"", b""
        if (newline or lines) and not self._quiet:
            text = (lines + newline).decode(errors="replace").removesuffix("\n")
            sys.stdout.write("".join(f"[rank {self.number}] {line}\n" for line in text.split("\n")))
            sys.stdout.flush()

    def is_stopped(self) -> bool:
        """Whether the system holds it, by SIGSTOP or for a debugger: it lives and does nothing."""
        try:
            status = psutil.Process(self.process.pid).status()
        except psutil.Error:  # it has just ended
            return False
        return status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)

    def stack(self) -> str:
        """Where the rank stands right now, or stood when it crashed, as its faulthandler tells; ""
        if it gives no answer."""
        if self.process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.process.pid, signal.SIGUSR1)
            size, give_up_at = 0, time.monotonic() + _STACK_S
            while time.monotonic() < give_up_at:
                time.sleep(0.01)
                size, before = self._stack.stat().st_size, size
                if size == before > 0:  # it has been written, and to its end
                    break
        return users_stack(self._stack.read_text())
