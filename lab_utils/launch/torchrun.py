"""Under torchrun the ranks are there already: run the function here, on this one, and gather what
all returned."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable
from typing import Any

from ..config import ConfigError
from ..i18n import t
from .gloo_threads import let_gloo_rest


def ranks_exist() -> bool:
    """Whether this process is itself a rank that torchrun, or a launch, has started."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def run_here(
    fn: Callable[..., Any], nproc: int, args: tuple, timeout: float, threads: int | None
) -> list[Any]:
    """Run fn(*args) as the rank that this process is; every rank gets the list of all results, by
    rank."""
    world = int(os.environ["WORLD_SIZE"])
    if nproc != world:
        raise ConfigError(
            t(
                f"this needs {nproc} rank(s), and {world} are there (RANK and WORLD_SIZE={world}"
                f" are set): start it with --nproc-per-node {nproc} on one machine, or ask for"
                f" {world}.",
                f"这里需要 {nproc} 个进程，而现有 {world} 个（已设置 RANK 和 WORLD_SIZE={world}）："
                f"在一台机器上请用 --nproc-per-node {nproc} 启动，或改为 {world} 个。",
            )
        )
    import torch
    import torch.distributed as dist

    if threads:
        torch.set_num_threads(threads)
    if not dist.is_initialized():
        from .group import join

        join(timeout)
        atexit.register(_leave)
    results: list[Any] = [None] * world
    dist.all_gather_object(results, fn(*args))
    return results


def _leave() -> None:
    """End the process group, and with it its threads if nobody else holds it; torch itself does
    once torch._dynamo is loaded."""
    import torch.distributed as dist

    gc.collect()
    dist.destroy_process_group()
    let_gloo_rest()
