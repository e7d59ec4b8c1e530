"""The program of a nursery: `python -m lab_utils.grade.inside.nursery`. It loads what workers need,
and for each room that it is told of forks a copy of itself, which goes in there."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
from functools import partial
from typing import Any

import torch

from .. import enter
from . import worker
from .chain import OPTIMIZERS, make_optimizer

MOST = 1 << 16  # bytes of what is said of a room


def main() -> None:
    """Until the grader is through with us."""
    enter.die_with_parent()
    torch.set_num_threads(1)
    _load_what_steps_need()
    gc.freeze()  # what is loaded now stays, and need not be looked through in each call
    line = socket.socket(fileno=int(os.environ.pop("LAB_LINE")))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is gone
    line.send(b"!")
    while True:
        said, descriptors, _, _ = socket.recv_fds(line, MOST, 3)
        if not said:
            return
        try:
            child = os.fork()
        except OSError as error:
            line.send(str(error).encode())
        else:
            if child == 0:
                line.close()
                _go_in(json.loads(said), *descriptors)
            seen = os.pidfd_open(child)
            socket.send_fds(line, [str(child).encode()], [seen])
            os.close(seen)
        for descriptor in descriptors:
            os.close(descriptor)


def _go_in(room: dict[str, Any], output: int, line: int, report: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for door in room["doors"]:
        with open(door, "w") as group:
            group.write("0")
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    enter.run(room, report, partial(_program, room["argv"], line))


def _program(argv: list[str], line: int) -> None:
    if not argv:
        with contextlib.suppress(EOFError, BrokenPipeError):
            worker.main(line)
        os._exit(0)
    os.set_inheritable(line, True)
    os.execve(argv[0], argv, dict(os.environ) | {"LAB_LINE": str(line)})


def _load_what_steps_need() -> None:
    """The first optimizer and its first step load 800 more modules of torch, for a second and a
    half: once here, and not in each call of each rank. No backward pass: a process that has started
    autograd's threads may not fork."""
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.zeros(2)
    for kind in OPTIMIZERS:
        make_optimizer(kind)([weight]).step()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)


if __name__ == "__main__":
    main()
