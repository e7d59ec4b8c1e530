"""Whether a run's ranks fit into this machine, asked of the estimator before the first of them is
started."""

from __future__ import annotations

import os

from ..config import ConfigError, TrainConfig
from ..estimate.fit import does_not_fit_free, does_not_fit_here, what_would_fit
from ..i18n import t
from ..launch.room import refuse_too_many_ranks
from ..launch.torchrun import ranks_exist
from ..machine import free_gpu_memory, free_memory


def why_not_on_gpus(config: TrainConfig) -> str | None:
    """Why a run stays on the CPU although there are GPUs, in one sentence; None if it does not."""
    world = int(os.environ.get("LOCAL_WORLD_SIZE", config.parallel.world_size))
    gpus = len(free_gpu_memory() or ())
    if not 0 < gpus < world:
        return None
    return t(
        f"{world} ranks and {gpus} GPU(s): NCCL takes no two ranks of a run on one GPU, so this"
        f" run is on the CPU; a layout of {gpus} rank(s) would use the GPU(s).",
        f"{world} 个进程、{gpus} 个 GPU：NCCL 不允许同一次运行的两个进程共用一个 GPU，因此这次运行"
        f"在 CPU 上进行；改用 {gpus} 个进程的布局就能用上 GPU。",
    )


def refuse_what_does_not_fit(config: TrainConfig) -> None:
    """Raise ConfigError for a run whose ranks here need more memory than is free: what they need,
    what there is, and what would fit.

    On GPUs, if there is one for every rank, the fullest rank is held against the fullest GPU; on a
    CPU all ranks of this machine against its memory. What the estimate leaves out (a library's own
    buffers) is not counted, so no run is refused that would fit.
    """
    world, first = config.parallel.world_size, 0
    if ranks_exist():
        first = int(os.environ["RANK"]) - int(os.environ.get("LOCAL_RANK", 0))
        world = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    else:
        refuse_too_many_ranks(world)
    here, gpus = range(first, first + world), free_gpu_memory()
    # GPUs that do not say how much is free: nothing is known
    if gpus is None:
        return
    on_gpus = len(gpus) >= world
    free = min(gpus[:world]) if on_gpus else free_memory()

    def shortage(asked: TrainConfig) -> str | None:
        return does_not_fit_free(asked, free) if on_gpus else does_not_fit_here(asked, free, here)

    if reason := shortage(config):
        advice = what_would_fit(config, lambda other: shortage(other) is None)
        raise ConfigError(
            t(
                f"{reason} {advice} --force (in Python force=True) starts it all the same.",
                f"{reason}{advice}若仍要启动，请加 --force（在 Python 中为 force=True）。",
            )
        )
