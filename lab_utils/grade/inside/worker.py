"""The program of a room: `python -m lab_utils.grade.inside.worker`. For each call it forks a copy
of itself, which takes the answer's source and one order, and says how it came out; then it ends
whatever the call has left in the room."""

from __future__ import annotations

import contextlib
import gc
import linecache
import os
import signal
import socket
import traceback
from types import TracebackType
from typing import Any

import torch

import lab_utils.data.loader
import lab_utils.measure.memory
import lab_utils.model
import lab_utils.parallel.comm
import lab_utils.parallel.mesh  # noqa: F401  (what labs import, so that no call waits for it)

from ..frames import Frame, write_frame
from . import by_check, lab05, lab06
from .chain import OPTIMIZERS, make_optimizer
from .link import Link


def _drive(link: Link, answer: Any, words: dict, tensors: list[torch.Tensor]) -> Any:
    """By a driver that came with the order: the source of a run(link, answer, words, tensors)."""
    namespace: dict[str, Any] = {"__name__": "driver"}
    exec(compile(words["driver"], "<driver>", "exec"), namespace)
    return namespace["run"](link, answer, words, tensors)


ORDERS = {
    "drive": _drive,
    "check": by_check.check,
    "chunk_bounds": lab05.chunk_bounds,
    "ring_all_reduce": lab05.ring_all_reduce,
    "bucketed": lab05.bucketed,
    "zero1": lab06.zero1,
    "zero2": lab06.zero2,
    "zero3": lab06.zero3,
}
ANSWER = "<answer>"


def main() -> None:
    """Until the grader is through with us."""
    torch.set_num_threads(1)
    _load_what_steps_need()
    gc.freeze()  # what is loaded now stays, and need not be looked through in each call
    line = socket.socket(fileno=int(os.environ.pop("LAB_LINE")))
    write_frame(line.fileno(), Frame({"done": "ready"}))
    line.setblocking(True)
    while True:
        begin, descriptors, _, _ = socket.recv_fds(line, 1, 1)
        if not begin:
            return
        child = os.fork()
        if child == 0:
            line.close()
            with contextlib.suppress(EOFError, BrokenPipeError):
                _one_call(Link(descriptors[0]))
            os._exit(0)
        os.close(descriptors[0])
        end = line.recv(1)
        if not end:
            return
        _end_all(child, whole_room=end == b"E")
        write_frame(line.fileno(), Frame(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        line.setblocking(True)


def _load_what_steps_need() -> None:
    """The first optimizer and its first step load 800 more modules of torch, for a second and a
    half: once here, and not in each call of each rank. No backward pass: a process that has started
    autograd's threads may not fork."""
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.zeros(2)
    for kind in OPTIMIZERS:
        make_optimizer(kind)([weight]).step()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)


def _end_all(child: int, whole_room: bool) -> None:
    # -1 means everybody, and that must be nobody but those in this room, whose first process is 1
    everybody = whole_room and os.getppid() == 1 and os.getpid() != 1
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1 if everybody else child, signal.SIGKILL)


def _one_call(link: Link) -> None:
    namespace: dict[str, Any] = {}
    while True:
        words, tensors = link.hear()
        try:
            if words["do"] == "load":
                namespace = _load(words["source"])
                link.tell({"done": "loaded"})
            else:
                answer = namespace[words["answer"]]
                link.tell(*ORDERS[words["do"]](link, answer, words, tensors))
        except (EOFError, BrokenPipeError):
            return
        except BaseException as error:
            link.tell({"raised": in_words(error)})


def _load(source: str) -> dict[str, Any]:
    # so that a traceback can quote it
    linecache.cache[ANSWER] = (len(source), None, source.splitlines(keepends=True), ANSWER)
    namespace = {"__name__": "answer"}
    exec(compile(source, ANSWER, "exec"), namespace)
    return namespace


def in_words(error: BaseException) -> str:
    """The error, and the answer's own line where it came up."""
    said = f"{type(error).__name__}: {error}".strip().removesuffix(":")
    return said[:500] + _place(error.__traceback__)


def _place(trace: TracebackType | None) -> str:
    own = [frame for frame in traceback.extract_tb(trace) if frame.filename == ANSWER]
    return f" — {own[-1].name}: {own[-1].line}" if own else ""


if __name__ == "__main__":
    main()
