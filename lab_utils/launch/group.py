"""Joining the process group, and the device that a rank works on."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


def join(timeout: float, **rendezvous: Any) -> None:
    """Initialise torch.distributed from RANK and WORLD_SIZE: NCCL beside gloo if every local rank has a GPU of its own.

    `timeout` (seconds) is the process group's; `rendezvous` goes to init_process_group.
    """
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    backend = "gloo"
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_world:
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    if local_world == world:                      # all on one machine: no host name has to be looked up
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    dist.init_process_group(backend, rank=rank, world_size=world, timeout=timedelta(seconds=timeout), **rendezvous)
