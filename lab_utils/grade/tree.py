"""What a process and all that descend from it use, read in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


def usage(root: int) -> tuple[int, int]:
    """(bytes of resident memory that belong to no file, processes) of the tree under `root`, itself
    included. Whoever ends while we look is left out."""
    tree = [pid for pid in _tree(root) if (PROC / str(pid)).exists()]
    return sum(_unshared(pid) for pid in tree), len(tree)


def own_bytes(root: int) -> int:
    """Bytes of memory that belong to no file, of the tree's processes, each by itself (proc(5):
    RssAnon and RssShmem)."""
    return sum(_own(_status(pid)) for pid in _tree(root))


def begin_peak(root: int) -> None:
    """Let the kernel look for the most from here on. Raises PermissionError where it will not."""
    for pid in _tree(root):
        try:
            (PROC / str(pid) / "clear_refs").write_text("5")
        except (FileNotFoundError, ProcessLookupError):
            continue


def peak_own_bytes(root: int) -> int:
    """The most own bytes since `begin_peak`, each process's by itself; or less, by what pages of
    files have come since (proc(5): VmHWM counts those, too)."""
    found = 0
    for pid in _tree(root):
        status = _status(pid)
        found += max(_own(status), status.get("VmHWM", 0) - status.get("RssFile", 0))
    return found


def _tree(root: int) -> Iterator[int]:
    """`root` and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    left = [root]
    while left:
        pid = left.pop()
        yield pid
        left += children.get(pid, [])


def _unshared(pid: int) -> int:
    try:
        _, resident, shared, *_ = map(int, (PROC / str(pid) / "statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * PAGE


def _own(status: dict[str, int]) -> int:
    return status.get("RssAnon", 0) + status.get("RssShmem", 0)


def _status(pid: int) -> dict[str, int]:
    """The bytes that /proc/PID/status names; none for a process that is there no more."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return {}
    words = (line.replace(":", "").split() for line in lines)
    return {one[0]: int(one[1]) * 1024 for one in words if one[-1] == "kB"}
