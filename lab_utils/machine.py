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


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
