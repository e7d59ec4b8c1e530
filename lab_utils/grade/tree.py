"""What a process and all that descend from it use, read in /proc."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def usage(root: int) -> tuple[int, int]:
    """(bytes of resident memory that belong to no file, processes) of the tree under `root`, itself
    included. Whoever ends while we look is left out."""
    parents, nbytes = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            _, resident, shared, *_ = map(int, (entry / "statm").read_text().split())
        except (OSError, ValueError):
            continue
        pid = int(entry.name)
        parents[pid], nbytes[pid] = int(words[1]), (resident - shared) * PAGE
    inside = {root}
    added = True
    while added:
        more = {pid for pid, parent in parents.items() if parent in inside} - inside
        inside, added = inside | more, bool(more)
    return sum(nbytes.get(pid, 0) for pid in inside), len(inside & parents.keys())
