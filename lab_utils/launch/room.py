"""How many ranks this machine can hold, asked before the first of them is started."""

from __future__ import annotations

from ..config import ConfigError
from ..i18n import t
from ..machine import RANK_BYTES, cores, free_memory
from ..sizes import size

# 64 ranks on two cores find each other in 15 s; each doubling takes four times as long
_RANKS_A_CORE = 32
_MOST_THREADS = 64  # of one rank on fewer cores: more only wait for each other


def most_ranks() -> int:
    """How many ranks fit into the free memory and can be served by the cores."""
    return max(1, min(_RANKS_A_CORE * cores(), free_memory() // RANK_BYTES))


def refuse_too_many_ranks(nproc: int) -> None:
    """Raise ConfigError, with the number that would fit, for more ranks than this machine holds."""
    most = most_ranks()
    if nproc <= most:
        return
    free, count, each = size(free_memory()), cores(), size(RANK_BYTES)
    raise ConfigError(
        t(
            f"{nproc:,} ranks do not fit this machine: {most:,} would, with {count} core(s) for at"
            f" most {_RANKS_A_CORE} each and {free} of free memory for at least {each} each;"
            " --force (in Python force=True) starts them all the same.",
            f"这台机器容纳不下 {nproc:,} 个进程，最多 {most:,} 个：它有 {count} 个核，每核最多"
            f" {_RANKS_A_CORE} 个进程；可用内存 {free}，每个进程至少需要 {each}。"
            "若仍要启动，请加 --force（在 Python 中为 force=True）。",
        )
    )


def refuse_too_many_threads(threads: int | None) -> None:
    """Raise ConfigError, with the most that makes sense, for more threads per rank than that."""
    most = max(_MOST_THREADS, cores())
    if threads is not None and threads > most:
        raise ConfigError(
            t(
                f"threads must be at most {most} on this machine of {cores()} core(s), not"
                f" {threads:,}.",
                f"本机有 {cores()} 个核，threads 最多为 {most}，而不是 {threads:,}。",
            )
        )
