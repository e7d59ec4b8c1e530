"""What the fork server loads, once, so that no rank has to. Imported there only."""

import atexit
import gc
import os
import shutil

import torch
import torch._dynamo  # the first optimizer that is made imports it: 0.7 s on every rank
import torch.distributed  # noqa: F401

from . import group, intercept, worker  # noqa: F401

# the server ends with its parent; a parent that was killed left the folder of its socket behind.
# Ranks end without this.
if folder := os.environ.pop("LAB_SERVERS_FOLDER", None):
    atexit.register(shutil.rmtree, folder, ignore_errors=True)

gc.collect()
# a rank's garbage collector would otherwise touch, and so copy, all pages it shares with the server
gc.freeze()
