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
    return sum(_own_bytes(pid) for pid in tree), len(tree)


def begin_peak(root: int) -> dict[int, int]:
    """Let the kernel look for the most from here on; what each process has now, for `peak_since`.
    Raises PermissionError where only root may."""
    now = {}
    for pid in _tree(root):
        try:
            (PROC / str(pid) / "clear_refs").write_text("5")
            now[pid] = _status(pid, "VmRSS")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return now


def peak_since(root: int, began: dict[int, int]) -> int:
    """Bytes by which the tree's processes grew at the most since `began`, each by itself, files
    that they map included (proc(5), VmHWM)."""
    return sum(_status(pid, "VmHWM") - began.get(pid, 0) for pid in _tree(root))


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


def _own_bytes(pid: int) -> int:
    try:
        _, resident, shared, *_ = map(int, (PROC / str(pid) / "statm").read_text().split())
    except (OSError, ValueError):
        return 0
    return (resident - shared) * PAGE


def _status(pid: int, name: str) -> int:
    """Bytes that /proc/PID/status says of `name`; 0 for a process that has none any more."""
    try:
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
