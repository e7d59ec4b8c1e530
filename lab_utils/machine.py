"""What this machine has to give at this moment: cores, free memory, free GPUs. Never imports
torch."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# measured: what a rank that trains `tiny` takes beside its tensors, one of 64 (its libraries it
# shares)
RANK_BYTES = 25_000_000
_CGROUP = Path("/sys/fs/cgroup")
# this group's limit, what it uses, and the key of the pages of files that the system takes back
_GROUP_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)


# the same for time on cores: microseconds of a period, and the period
_QUOTA_FILES = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))


def cores(group: Path = _CGROUP) -> int:
    """How many cores this process may use: those that it may run on, or fewer where a container
    (`group`: its control group) gets only their time."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    for names in _QUOTA_FILES:
        try:
            words = " ".join((group / name).read_text() for name in names).split()
            quota, period = map(int, words)
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        if quota > 0:
            count = min(count, max(1, quota // period))
    return count


def threads_a_rank(ranks: int) -> int:
    """CPU threads for each of `ranks` ranks: what OMP_NUM_THREADS allows, as a server that many
    learners share or a scheduler sets it, else the cores shared out, at least 1."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    # a list is for levels of nesting; the first counts
    first = told.partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) else max(1, cores() // ranks)


def free_memory(group: Path = _CGROUP) -> int:
    """Bytes that new processes can take without swapping: the machine's, or less where a container
    (`group`: its control group) has a limit."""
    import psutil

    free = psutil.virtual_memory().available
    for limit, used, reclaimable in _GROUP_FILES:
        try:
            most, taken = (int((group / name).read_text()) for name in (limit, used))
            lines = (group / limit).with_name("memory.stat").read_text().splitlines()
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        back = next((int(n) for key, n in map(str.split, lines) if key == reclaimable), 0)
        free = min(free, max(0, most - taken + back))
    return free


def free_gpu_memory() -> list[int] | None:
    """Free bytes of each NVIDIA GPU that this process may use, [] where there is none, None where
    they do not say."""
    if not Path("/dev/nvidiactl").exists():
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    query = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True).stdout
        free = [int(line) * 2**20 for line in said.splitlines()]
        return free if chosen is None else [free[int(n)] for n in chosen.split(",") if n.strip()]
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None
