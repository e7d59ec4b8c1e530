"""What the fork server loads, once, so that no rank has to. Imported there only."""

import gc

import torch
import torch._dynamo  # the first optimizer that is made imports it: 0.7 s on every rank
import torch.distributed  # noqa: F401

from . import group, intercept, worker  # noqa: F401

gc.collect()
# a rank's garbage collector would otherwise touch, and so copy, all pages it shares with the server
gc.freeze()
