"""Goes into a room of its own and runs one program there: `run(room, report, program)`.

    ours         this process: goes into new namespaces, as far as room["spaces"] names them, and
      first      forks process 1 of them, which sees the room's files and no other processes,
        program  and forks the program, without any right. When the first process ends, the kernel
                 ends every other in the room, however it has hidden.

The room's network is its loopback.

The room's files: `readable` paths at their own places, read-only; an empty directory over each
`hidden` one; its own /tmp, /dev and /proc. The descriptor `report` gets two lines of JSON: what
could not be had, {protection: reason}, before the program starts; and in the end its exit status,
−n for signal n.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
SPACES = {
    "user": 0x10000000,
    "mount": 0x00020000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "name": 0x04000000,
}
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
KEPT_FLAGS = NOSUID | NODEV | NOEXEC | 1024 | 2048  # a bind mount may not lose these (noatime …)
DETACH, PDEATHSIG, CAPBSET_DROP, NO_NEW_PRIVS, SUBREAPER = 2, 1, 24, 38, 36
DUMPABLE = 4
CAPABILITY_VERSION = 0x20080522
DEVICES = ("null", "zero", "full", "random", "urandom")


def call(name: str, *values: Any) -> None:
    """A function of the C library; raises OSError with its reason."""
    given = [v.encode() if isinstance(v, str) else v for v in values]
    if getattr(LIBC, name)(*given) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def enter_spaces(names: list[str]) -> dict[str, str]:
    """Into new namespaces; what was refused, with the reason. A user namespace comes first where
    we are not root, or there is no right to the others."""
    missing: dict[str, str] = {}
    uid, gid = os.getuid(), os.getgid()
    for name in sorted(names, key=lambda name: name != "user"):
        try:
            call("unshare", SPACES[name])
            if name == "user":
                write("/proc/self/setgroups", "deny")
                write("/proc/self/uid_map", f"0 {uid} 1")
                write("/proc/self/gid_map", f"0 {gid} 1")
        except OSError as error:
            missing[name] = str(error)
    return missing


def write(path: str, words: str) -> None:
    with open(path, "w") as file:
        file.write(words)


def mount_flags(path: str) -> int:
    """Those of the file system under `path` that a bind mount may not take away."""
    return os.statvfs(path).f_flag & KEPT_FLAGS


def bind(source: str, target: str, read_only: bool = True) -> None:
    """Show `source` at `target` too."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    call("mount", source, target, None, BIND | REC, None)
    if read_only:
        flags = mount_flags(source) | NOSUID
        call("mount", None, target, None, BIND | REMOUNT | RDONLY | flags, None)


def memory_disk(target: str, nbytes: int, mode: str = "1777") -> None:
    os.makedirs(target, exist_ok=True)
    call("mount", "tmpfs", target, "tmpfs", NOSUID | NODEV, f"size={nbytes},mode={mode}")


def furnish(room: dict[str, Any]) -> None:
    """Make `room["root"]`, an empty directory, the root of what this process sees."""
    root = room["root"]
    call("mount", None, "/", None, REC | PRIVATE, None)
    memory_disk(root, 16_000_000, "755")
    for name in ("/tmp", "/dev/shm"):  # first: what may be read may lie in /tmp
        memory_disk(root + name, room["disk_bytes"])
    for path in room["readable"]:
        if os.path.islink(path):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.symlink(os.path.realpath(path), root + path)
        elif os.path.exists(path):
            bind(path, root + path)
    for path in room["hidden"]:
        if os.path.isdir(root + path):
            memory_disk(root + path, 4096, "755")
    for name in DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    os.makedirs(root + "/proc", exist_ok=True)
    call("mount", "proc", root + "/proc", "proc", NOSUID | NODEV | NOEXEC, None)
    call("mount", None, root, None, REMOUNT | RDONLY | NOSUID | NODEV, None)
    os.chdir(root)
    call("pivot_root", ".", ".")
    call("umount2", ".", DETACH)
    os.chdir("/tmp")


def loopback_up() -> None:
    """The only interface of this network namespace (netdevice(7))."""
    set_flags, up = 0x8914, 0x1 | 0x40
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up))


def give_up_rights(room: dict[str, Any]) -> None:
    """No capability, no way to one, another user where we may be one, and limits."""
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, room["disk_bytes"]),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_NPROC, room["threads"]),
    ):
        resource.setrlimit(limit, (value, value))
    for capability in range(64):
        LIBC.prctl(CAPBSET_DROP, capability, 0, 0, 0)  # beyond the last one: refused, and no matter
    if room["uid"] is not None:
        os.setgroups([])
        os.setresgid(room["uid"], room["uid"], room["uid"])
        os.setresuid(room["uid"], room["uid"], room["uid"])
    none = (ctypes.c_uint32 * 6)()
    call("capset", (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), none)
    call("prctl", NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", DUMPABLE, 1, 0, 0, 0)  # its own /proc/self is its own, as after any execve(2)


def die_with_parent() -> None:
    call("prctl", PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def attempt(missing: dict[str, str], name: str, step: Callable[[], None]) -> None:
    try:
        step()
    except OSError as error:
        missing[name] = str(error)


def reap(program: int) -> int:
    """Wait for the program, and for whoever was left to us; its exit status as a shell says it."""
    while True:
        pid, status = os.wait()
        if pid == program:
            return os.waitstatus_to_exitcode(status)


def first(
    room: dict[str, Any], missing: dict[str, str], report: int, program: Callable[[], None]
) -> int:
    """Process 1 of the room."""
    die_with_parent()
    if "net" in room["spaces"] and "net" not in missing:
        attempt(missing, "net", loopback_up)
    if "mount" in room["spaces"] and "mount" not in missing:
        furnish(room)  # half a room would be worse than none: an error ends it here
    os.write(report, json.dumps(missing).encode() + b"\n")
    os.close(report)
    child = os.fork()
    if child == 0:
        os.setsid()
        give_up_rights(room)
        die_with_parent()  # last: whoever changes users is forgotten
        program()
    for descriptor in range(3):
        os.close(descriptor)
    return reap(child)


def run(room: dict[str, Any], report: int, program: Callable[[], None]) -> None:
    """Until the program has ended; never returns. `program` does not return either."""
    die_with_parent()
    call("prctl", SUBREAPER, 1, 0, 0, 0)  # who is left alone comes to us
    missing = enter_spaces(room["spaces"])
    child = os.fork()
    if child == 0:
        try:
            status = first(room, missing, report, program)
        except BaseException as error:
            os.write(2, f"room: {type(error).__name__}: {error}\n".encode())
            status = 125
        os._exit(status if status >= 0 else 128 - status)
    status = reap(child)
    os.write(report, json.dumps(status if status < 128 else 128 - status).encode())
    os._exit(0)
