"""What rooms have left behind on this machine: processes, namespaces, files, mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from lab_utils.grade.group import groups
from lab_utils.grade.sandbox import FIRST_UID, FOLDERS

SPACES = ("pid", "mnt", "net", "ipc", "uts", "user")
UIDS = range(FIRST_UID, FIRST_UID + 1000)
PROGRAM = b"lab_utils.grade.inside"


def left_behind() -> dict[str, list[str]]:
    """By kind, of any grader that runs or ran here; those at work count, too."""
    processes = list(_processes())
    return dict(
        processes=processes,
        namespaces=sorted({one for pid in processes for one in _spaces(pid)}),
        files=list(_files()),
        groups=list(map(str, groups(FOLDERS))),
        mounts=[one for one in Path("/proc/mounts").read_text().splitlines() if FOLDERS in one],
    )


def _processes() -> Iterator[str]:
    """Those that have a room's user, or run its program."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (
                entry.stat().st_uid in UIDS or PROGRAM in (entry / "cmdline").read_bytes()
            ):
                yield entry.name
        except OSError:
            continue


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
            if path.name.startswith(FOLDERS) or owner in UIDS:
                yield str(path)
