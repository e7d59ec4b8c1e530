"""A script that may hang, started by torchrun: it always comes to an end, and if it was ended, each
rank says where it stood."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ...i18n import t

QUIET_S = 3.0  # all ranks asleep for so long, with no instruction done: they wait for each other
LOOK_S = 0.2
LIMIT_S = 100.0
RAISED = re.compile(r"^(?:\[rank\d+\]: )?(\w+(?:\.\w+)*(?:Error|Exception): .*)$", re.M)
FRAME = re.compile(r'File "(.*)", line (\d+) in (.*)')


@dataclass
class Attempt:
    """How a run ended. `printed`: what the ranks printed; `errors`: what came on stderr; `status`:
    torchrun's exit status, None if the run was ended here; `waits`: then, of each rank that still
    was there, its calls inside the script and the one it had made last, outermost first."""

    printed: str
    errors: str
    status: int | None
    waits: dict[int, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.status is None:
            ranks = [
                f"rank {rank}: " + " → ".join(calls) for rank, calls in sorted(self.waits.items())
            ]
            said = t(
                "It hung: for some seconds no rank did anything. Where each one waits:",
                "卡死了：好几秒内没有一个 rank 在做事。各自等在哪里：",
            )
            return "\n".join([*self.printed.splitlines(), said, *ranks])
        if self.status:
            return "\n".join([*self.printed.splitlines(), self.last_words()])
        return self.printed.rstrip()

    def last_words(self) -> str:
        """The exception that a rank ended with."""
        found = RAISED.findall(self.errors)
        return found[0] if found else self.errors[-2000:]


def attempt(
    name: str, ranks: int, *words: str, folder: str | Path | None = None, **environment: str
) -> Attempt:
    """`torchrun --standalone --nproc-per-node RANKS NAME WORDS` in `folder` (None: an empty one, so
    that no checkpoint of another run lies there), with these variables in its environment; it is
    ended when all ranks wait, and after 100 seconds.

    A run that the system ended with SIGABRT after its work is begun again, for the reason that
    stands at `torchrun` in this package.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        return _attempt(str(Path(name).resolve()), ranks, words, Path(folder), environment)


def _attempt(
    name: str, ranks: int, words: tuple[str, ...], folder: Path, environment: dict[str, str]
) -> Attempt:
    for _ in range(3):
        ended = _once(name, ranks, words, folder, environment)
        if ended.status is None or "(SIGABRT)" not in ended.errors:
            break
    return ended


def _once(
    name: str, ranks: int, words: tuple[str, ...], folder: Path, environment: dict[str, str]
) -> Attempt:
    import torch

    if torch.cuda.device_count() < ranks:
        environment = {"CUDA_VISIBLE_DEVICES": "", **environment}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    # an aborted process with PYTHONFAULTHANDLER says where it stood
    always = {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        run = subprocess.Popen(
            [*command, f"--nproc-per-node={ranks}", name, *words],
            cwd=folder,
            env=os.environ | always | environment,
            stdout=out,
            stderr=err,
        )
        waits = {}
        try:
            ended_here = not _came_to_its_end(run)
            if ended_here:
                waits = _ask(run, err)
        finally:
            _end(run)
        for file in (out, err):
            file.seek(0)
        return Attempt(out.read(), err.read(), None if ended_here else run.returncode, waits)


def _came_to_its_end(run: subprocess.Popen) -> bool:
    begun = asleep_since = time.monotonic()
    used = 0.0
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(LOOK_S)
            return True
        now = time.monotonic()
        ranks, before = list(_ranks(run)), used
        used = sum(_cpu_seconds(rank) for rank in ranks)
        if not ranks or used > before + 0.01 or not all(map(_sleeps, ranks)):
            asleep_since = now
        if now - asleep_since > QUIET_S or now - begun > LIMIT_S:
            return False


def _ranks(run: subprocess.Popen) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        yield from psutil.Process(run.pid).children()


def _cpu_seconds(rank: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        times = rank.cpu_times()
        return times.user + times.system
    return 0.0


def _sleeps(rank: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return rank.status() == psutil.STATUS_SLEEPING
    return False


def _ask(run: subprocess.Popen, err: object) -> dict[int, list[str]]:
    """Where each rank stands, one after the other. All are stopped first: torchrun would end the
    second when the first has gone, and the second itself would raise when the first hangs up."""
    ranks = list(_ranks(run))
    os.kill(run.pid, signal.SIGSTOP)
    for rank in ranks:
        with contextlib.suppress(psutil.Error):
            rank.suspend()
    found = {}
    for rank in ranks:
        with contextlib.suppress(psutil.Error, OSError):
            number = int(rank.environ()["RANK"])
            begin = os.fstat(err.fileno()).st_size
            rank.send_signal(signal.SIGABRT)
            rank.resume()
            _until_gone(rank)
            with open(f"/proc/self/fd/{err.fileno()}", encoding="utf-8", errors="replace") as said:
                said.seek(begin)
                found[number] = _calls(said.read())
    return found


def _until_gone(rank: psutil.Process) -> None:
    until = time.monotonic() + 10
    while time.monotonic() < until and rank.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.02)


def _calls(stack: str) -> list[str]:
    """Of the main thread's stack the frames in files beside the script, and the torch.distributed
    function that the innermost of them called."""
    threads = re.split(r"^(?:Current thread|Thread) .*$", stack, flags=re.M)
    main = next((one for one in reversed(threads) if "<module>" in one), stack)
    frames = [(Path(file), int(line), name) for file, line, name in FRAME.findall(main)]
    own = [n for n, (file, _, _) in enumerate(frames) if _is_own(file)]
    if not own:
        return [t("(no frame of the script)", "（脚本里没有栈帧）")]
    outermost_first = [frames[n] for n in reversed(own)]
    calls = [f"{name} ({file.name}:{line})" for file, line, name in outermost_first]
    called = [name for file, _, name in frames[: own[0]] if file.name != "c10d_logger.py"]
    return calls + [name for name in called[-1:] if name != "<module>"]


def _is_own(file: Path) -> bool:
    return "site-packages" not in file.parts and not str(file).startswith((sys.base_prefix, "<"))


def _end(run: subprocess.Popen) -> None:
    """End torchrun and all that it has started."""
    with contextlib.suppress(psutil.Error):
        for process in [*psutil.Process(run.pid).children(recursive=True), psutil.Process(run.pid)]:
            with contextlib.suppress(psutil.Error):
                process.kill()
    run.wait()
