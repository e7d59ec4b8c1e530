"""A control group for each room, where the machine lets the grader make one (cgroups(7)): it bounds
the processes, and counts memory that no process has mapped, such as memory files."""

from __future__ import annotations

import atexit
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

OWN = Path("/proc/self/cgroup")
MOUNTS = Path("/proc/self/mounts")
_left: list[Path] = []  # closed, while the kernel may still be at work in them


class Group:
    """Of version 1 or 2, whichever has the controller. `missing`: what could not be had, and why;
    `doors`: the files that take in the process which writes "0" to them, and its later children."""

    def __init__(self, name: str, processes: int) -> None:
        sweep()
        self.missing, self._places = dict[str, str](), dict[str, Path]()
        for controller in ("memory", "pids"):
            try:
                place = _parent(controller) / name
                place.mkdir(exist_ok=True)
                if controller == "pids":
                    (place / "pids.max").write_text(str(processes))
                self._places[controller] = place
            except OSError as error:
                self.missing[f"cgroup {controller}"] = str(error)

    @property
    def doors(self) -> list[str]:
        return [str(place / "cgroup.procs") for place in dict.fromkeys(self._places.values())]

    def file_bytes(self) -> int:
        """Memory of its files in memory, mapped or not; 0 where it is not known."""
        if "memory" not in self._places:
            return 0
        lines = (self._places["memory"] / "memory.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["shmem"])

    def close(self) -> None:
        """Remove it, as soon as the kernel lets us."""
        _left.extend(dict.fromkeys(self._places.values()))
        self._places = {}
        sweep()


def sweep(more: Sequence[Path] = ()) -> None:
    """Remove groups that are closed, and `more`."""
    for place in (*more, *_left):
        with contextlib.suppress(OSError):
            place.rmdir()
    _left[:] = [place for place in _left if place.exists()]


@atexit.register
def _last_sweep(within_s: float = 2.0) -> None:
    until = time.monotonic() + within_s
    while _left and time.monotonic() < until:
        sweep()
        time.sleep(0.01)


def groups(prefix: str) -> list[Path]:
    """Those with names that begin so, beside which new ones would be made."""
    found = list[Path]()
    for controller in ("memory", "pids"):
        with contextlib.suppress(OSError):
            found += _parent(controller).glob(f"{prefix}*")
    return list(dict.fromkeys(found))


def _parent(controller: str) -> Path:
    """Where groups with this controller can be made. Raises OSError."""
    own = [line.split(":", 2) for line in OWN.read_text().splitlines()]
    for line in MOUNTS.read_text().splitlines():
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            [path] = [path for _, names, path in own if controller in names.split(",")]
            return _existing(Path(place), path)
        if kind == "cgroup2" and controller in _words(Path(place) / "cgroup.controllers"):
            [path] = [path for number, _, path in own if number == "0"]
            here = _existing(Path(place), path)
            # a group with processes has no controllers for its children, but one above it may
            for one in (here, *here.parents):
                if controller in _words(one / "cgroup.subtree_control"):
                    return one
                if one == Path(place):
                    break
    raise FileNotFoundError(f"no control group with {controller} that new ones can be made in")


def _existing(mount: Path, path: str) -> Path:
    """Our own group; its top where the path is another namespace's."""
    own = mount / path.lstrip("/")
    return own if own.exists() else mount


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []
