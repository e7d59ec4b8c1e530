"""What a process and all that descend from it use, read in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
PROC = Path("/proc")
KNOWN = (PROC / "thread-self/children").exists()


def usage(root: int, enough: int) -> tuple[int, int]:
    """(bytes of resident memory that belong to no file, processes) of the tree under `root`, itself
    included. Whoever ends while we look is left out. What several share is counted for each, unless
    that comes to more than `enough`: then it is shared out among them, where the kernel lets us."""
    tree = [pid for pid in _tree(root) if (PROC / str(pid)).exists()]
    used = sum(_unshared(pid) for pid in tree)
    return used if used <= enough else sum(map(_share, tree)), len(tree)


def activity(root: int) -> tuple[float, bool]:
    """(seconds of a core that the tree has used, what has ended in it included; whether anybody in
    it computes, would compute if a core were free, or waits for a disk)."""
    ticks, awake = 0, False
    for pid in _tree(root):
        for thread in _threads(pid):
            state = _stat(thread)
            awake = awake or (bool(state) and state[0] in "RD")
        if times := _stat(PROC / str(pid)):
            ticks += sum(map(int, times[11:15]))
    return ticks / TICKS, awake


def own_bytes(root: int) -> int:
    """Bytes of memory that belong to no file, of the tree's processes, each by itself (proc(5):
    RssAnon and RssShmem)."""
    return sum(_own(_status(pid)) for pid in _tree(root))


def mapped_files(root: int) -> int:
    """Bytes of memory files that the tree's processes have mapped."""
    return sum(_status(pid).get("RssShmem", 0) for pid in _tree(root))


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
    left = [root]
    while left:
        pid = left.pop()
        yield pid
        left += _children(pid)


def _children(pid: int) -> list[int]:
    """Of all its threads (proc(5): a kernel without CONFIG_PROC_CHILDREN has no such file)."""
    found: list[int] = []
    if not KNOWN:
        every = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
        return [one for one in every if _stat(PROC / str(one))[1:2] == [str(pid)]]
    for thread in _threads(pid):
        try:
            found += map(int, (thread / "children").read_text().split())
        except OSError:
            continue
    return found


def _threads(pid: int) -> list[Path]:
    try:
        return list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return []


def _stat(place: Path) -> list[str]:
    """What /proc/PID/stat says from the state on; nothing of a process that is there no more."""
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _share(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return _unshared(pid)
    words = (line.split() for line in lines)
    return sum(int(one[1]) * 1024 for one in words if one[0] in ("Pss_Anon:", "Pss_Shmem:"))


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
