"""What the fork server loads, once, so that no rank has to. Imported there only."""

import atexit
import gc
import os
import shutil
import sys
from types import TracebackType

import torch
import torch._dynamo  # the first optimizer that is made imports it: 0.7 s on every rank
import torch.distributed  # noqa: F401

from . import group, intercept, worker  # noqa: F401

# the server ends with its parent; a parent that was killed left the folder of its socket behind.
# Ranks end without this.
if folder := os.environ.pop("LAB_SERVERS_FOLDER", None):
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _unless_called_off(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A rank whose parent was interrupted before it had said what to run has nothing to tell."""
    last = trace
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if kind is EOFError and last is not None and last.tb_frame.f_code.co_name == "_main":
        return
    sys.__excepthook__(kind, error, trace)


sys.excepthook = _unless_called_off

gc.collect()
# a rank's garbage collector would otherwise touch, and so copy, all pages it shares with the server
gc.freeze()
