"""The parent's side of a launch: starts the ranks, watches over them, and ends them all, whatever
happens."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle

from ..config import ConfigError
from ..i18n import language, t
from ..machine import threads_a_rank
from ..remedies import refuse_without_torch
from . import worker
from .diagnose import History, diagnose, too_late
from .errors import explain
from .folder import private_folder, room_on_disk
from .process import RankProcess, start_server
from .room import refuse_too_many_ranks, refuse_too_many_threads
from .torchrun import ranks_exist, run_here

_LOOK_S = 0.05  # between two looks at the flight records
# from the first sign of trouble to the verdict: the cause may be reported after its consequences
_GRACE_S = 0.15
_ECHO_GRACE_S = 0.5  # the same while only a broken connection was reported


def launch(
    fn: Callable[..., Any],
    nproc: int,
    *args: Any,
    timeout: float = 60.0,
    threads: int | None = None,
    on_event: Callable[[int, Any], None] | None = None,
    quiet: bool = False,
    force: bool = False,
) -> list[Any]:
    """Run fn(*args) on `nproc` ranks with torch.distributed initialised, and return their results
    by rank.

    Works in a notebook, a script (no `__main__` guard needed) and under torchrun, where the ranks
    that exist are used and nproc must be their number. `fn` may be defined in the notebook; it
    reads RANK and WORLD_SIZE from os.environ or torch.distributed. GPUs and NCCL are used if there
    are enough for every rank, else CPUs and gloo.

    timeout seconds that a rank may be waited for by its peers in one collective, or run on after
    they all returned
    threads   CPU threads per rank; default: OMP_NUM_THREADS, else the cores shared out
    on_event  called here, as on_event(rank, value), for each `emit(value)` inside a rank
    quiet     do not print what the ranks print
    force     start them even if they are more than this machine's memory and cores can hold

    Raises LaunchError, which names the rank and the likely cause, when a rank raises, exits, dies,
    hangs, leaves its peers waiting or makes another collective call than they do; no rank is left
    then, nor after an interrupt (which does not arrive where SIGINT is ignored, as under nohup: end
    the process by SIGTERM there). Raises ConfigError, a ValueError, for more ranks than fit.
    """
    _check(
        callable(fn),
        f"launch needs a function to run, not {fn!r}.",
        f"launch 需要一个可调用的函数，而不是 {fn!r}。",
    )
    for name, value, least in (("nproc", nproc, 1), ("threads", threads, 1)):
        _check(
            value is None
            and name == "threads"
            or isinstance(value, int)
            and not isinstance(value, bool)
            and value >= least,
            f"{name} must be a whole number from {least} up, not {value!r}.",
            f"{name} 应为不小于 {least} 的整数，而不是 {value!r}。",
        )
    refuse_too_many_threads(threads)
    _check(
        isinstance(timeout, int | float) and 0 < timeout < 1e7,
        f"timeout must be a number of seconds above 0, not {timeout!r}.",
        f"timeout 应为大于 0 的秒数，而不是 {timeout!r}。",
    )
    if ranks_exist():
        return run_here(fn, nproc, args, timeout, threads)
    _check(
        sys.platform != "win32",
        "launch needs Linux or macOS: on Windows, run the course inside WSL.",
        "launch 需要 Linux 或 macOS：在 Windows 上请在 WSL 中运行本课程。",
    )
    refuse_without_torch()
    if not force:
        refuse_too_many_ranks(nproc)
    with private_folder() as where:
        with room_on_disk(where):
            (where / "call").write_bytes(_pickled(fn, args))
        environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        threads = threads or threads_a_rank(nproc)
        job = worker.Job(
            where,
            nproc,
            threads,
            timeout,
            language(),
            environment,
            multiprocessing.get_start_method(allow_none=True),
        )
        with room_on_disk(where):
            ranks = [RankProcess(number, job, on_event, quiet) for number in range(nproc)]
        try:
            with _uninterrupted():
                start_server()
            with _main_hidden():
                for rank in ranks:
                    rank.start()
            _watch(ranks, timeout)
        finally:
            with _uninterrupted():
                for rank in ranks:
                    rank.kill()
                for rank in ranks:
                    rank.close()
    return [cloudpickle.loads(rank.state.detail) for rank in ranks]


def _check(condition: bool, en: str, zh: str) -> None:
    if not condition:
        raise ConfigError(t(en, zh))


def _pickled(fn: Callable[..., Any], args: tuple) -> bytes:
    try:
        return cloudpickle.dumps((fn, args))
    except Exception as error:
        raise TypeError(
            t(
                f"the function or its arguments cannot be sent to the ranks ({error}): create such"
                " objects inside the function.",
                f"函数或参数无法发送给各进程（{error}）：请在函数内部创建这类对象。",
            )
        ) from error


def _free_port() -> int:
    """A port for libraries that insist on MASTER_PORT; the ranks themselves meet in a file."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """Without its name and file, multiprocessing cannot run the caller's script again in every
    child."""
    main = sys.modules["__main__"]
    kept = {
        name: main.__dict__.pop(name) for name in ("__spec__", "__file__") if name in main.__dict__
    }
    main.__spec__ = None
    try:
        yield
    finally:
        main.__dict__.update(kept)


def _watch(ranks: list[RankProcess], timeout: float) -> None:
    """Until every rank has returned; raises LaunchError when one is in trouble."""
    history, states, alive, decide_at = History(), [r.state for r in ranks], set(ranks), None
    with selectors.DefaultSelector() as ready:
        for rank in ranks:
            for source in rank.sources:
                ready.register(source, selectors.EVENT_READ)
        while True:
            ready.select(_LOOK_S)
            for rank in ranks:
                rank.hear()
            for rank in [r for r in alive if r.process.exitcode is not None]:
                # a dead rank's ends would stay ready for ever
                alive.remove(rank)
                for source in rank.sources:
                    ready.unregister(source)
            for rank in ranks:
                for call in rank.record.new_calls():
                    history.add(rank.number, *call)
                rank.state.waiting = rank.record.waiting()
            now, done = time.monotonic(), all(s.end == "returned" for s in states)
            if too_late(states, timeout, now):
                for rank in alive:
                    rank.state.frozen = rank.is_stopped()
            verdict = diagnose(history, states, timeout, now)
            if verdict:
                decide_at = decide_at or now + (_ECHO_GRACE_S if verdict.echo else _GRACE_S)
                if done or now >= decide_at:
                    stacks = {
                        r: ranks[r].stack()
                        for r in verdict.witnesses
                        if states[r].end in (None, "killed")
                    }
                    raise explain(verdict, states, timeout, stacks)
            elif done:
                return


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put off an interrupt until the block is done: the server is started, ranks are ended
    completely, or it did not happen yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            signal.raise_signal(signal.SIGINT)
