"""What rooms have left behind on this machine: processes, namespaces, files, mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lab_utils.grade.group import groups
from lab_utils.grade.sandbox import FOLDERS, UIDS

SPACES = ("pid", "mnt", "net", "ipc", "uts", "user")
PROGRAM = b"lab_utils.grade.inside"


def left_behind() -> dict[str, list[str]]:
    """By kind: of rooms of this process and its children, and of those whose grader is no more;
    others may be at work."""
    processes = list(_processes())
    mounts = Path("/proc/mounts").read_text().splitlines()
    return dict(
        processes=processes,
        namespaces=sorted({one for pid in processes for one in _spaces(pid)}),
        files=list(_files()),
        groups=[str(group) for group in groups(FOLDERS) if _named_ours(str(group))],
        mounts=[one for one in mounts if FOLDERS in one and _named_ours(one)],
    )


def is_ours(pid: int) -> bool:
    """Whether a process is us, a child of ours, or one of a room or a nursery whose grader is no
    more: nobody else will clean up."""
    while pid > 1 and pid != os.getpid():
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if parent <= 1:
                return _is_a_rooms(Path(f"/proc/{pid}"))
        except OSError:
            return True
        pid = parent
    return pid == os.getpid()


def _named_ours(words: str) -> bool:
    """By the grader's number in a room's name."""
    return is_ours(int(words.partition(FOLDERS)[2].partition("-")[0]))


def _processes() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        try:
            found = entry.name.isdigit() and _is_a_rooms(entry) and is_ours(int(entry.name))
        except OSError:
            continue
        if found:
            yield entry.name


def _is_a_rooms(entry: Path) -> bool:
    return entry.stat().st_uid in UIDS or PROGRAM in (entry / "cmdline").read_bytes()


def _spaces(pid: str) -> Iterator[str]:
    for name in SPACES:
        try:
            theirs, ours = (os.readlink(f"/proc/{who}/ns/{name}") for who in (pid, "self"))
        except OSError:
            continue
        if theirs != ours:
            yield theirs


def _files() -> Iterator[str]:
    for top in ("/tmp", "/dev/shm", "/var/tmp"):
        for path in Path(top).glob("*"):
            try:
                owner = path.lstat().st_uid
            except OSError:
                continue
            named = path.name.startswith(FOLDERS) and _named_ours(path.name)
            if named or owner in UIDS:
                yield str(path)
