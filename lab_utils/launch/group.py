"""Joining the process group, and the device that a rank works on."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ..i18n import t


def join(timeout: float, **rendezvous: Any) -> None:
    """Initialise torch.distributed from RANK and WORLD_SIZE: NCCL beside gloo if every local rank
    has a GPU of its own.

    `timeout` (seconds) is the process group's; `rendezvous` goes to init_process_group.
    """
    rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    local_world = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    backend = "gloo"
    if torch.cuda.is_available() and torch.cuda.device_count() >= local_world:
        torch.cuda.set_device(local)
        backend = "cpu:gloo,cuda:nccl"
    # all on one machine: no host name has to be looked up
    if local_world == world:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    else:
        for library in ("GLOO", "NCCL"):
            os.environ.setdefault(
                f"{library}_SOCKET_IFNAME", interface_towards(os.environ["MASTER_ADDR"])
            )
    dist.init_process_group(
        backend, rank=rank, world_size=world, timeout=timedelta(seconds=timeout), **rendezvous
    )


def interface_towards(host: str) -> str:
    """The network interface through which this machine reaches `host`.

    Left to itself gloo takes the interface of whatever the own host name resolves to, which on many
    clusters is the loopback one: ranks of other machines then wait for ever. Raises OSError if
    `host` cannot be resolved.
    """
    import psutil

    family, _, _, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)  # sends nothing; the system only chooses the route
        own = probe.getsockname()[0]
    addresses = {
        name: [entry.address.split("%")[0] for entry in entries]
        for name, entries in psutil.net_if_addrs().items()
    }
    # a machine may call itself 127.0.1.1, by which no other reaches it: then the first interface
    # that leads outside
    outward = [
        name for name in addresses if psutil.net_if_stats()[name].isup and not name.startswith("lo")
    ]
    found = (
        outward
        if own.startswith("127.")
        else [name for name, owned in addresses.items() if own in owned]
    )
    if not found:
        raise OSError(
            t(
                f"no network interface of this machine leads to {host}: set GLOO_SOCKET_IFNAME to"
                " the right one.",
                f"本机没有通往 {host} 的网络接口：请把 GLOO_SOCKET_IFNAME 设为正确的接口名。",
            )
        )
    return found[0]
