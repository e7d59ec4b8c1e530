"""The network between rooms, and what passed over it: a switch in a network namespace of its own,
and a cable from it into each room (veth(4)). A room's bytes are read at the switch's end of its
cable, where nobody in the room can reach, nor count less than what it sent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import NamedTuple


class Passed(NamedTuple):
    """Bytes of one room, headers included."""

    sent: int
    received: int


class WireError(RuntimeError):
    """This machine gives no such network."""


class Switch:
    """The rooms' network; `with Switch() as switch`, then Room(…, wire=switch.wire(rank)).

    Raises WireError where there is no right to it, or no `ip` and `nsenter` (iproute2,
    util-linux).
    """

    def __init__(self) -> None:
        self._holder: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Switch:
        for program in ("ip", "nsenter", "unshare"):
            if shutil.which(program) is None:
                raise WireError(f"no program named {program} here")
        if os.getuid() != 0:
            raise WireError("cables between namespaces need root")
        # it waits for the end of its input, and so ends with us
        self._holder = subprocess.Popen(
            ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._holder.stdin.write(b"ready\n")
        self._holder.stdin.flush()
        if not self._holder.stdout.readline():
            self._holder.wait()
            raise WireError("no right to a network namespace")
        self.ip("link", "add", "switch", "type", "bridge")
        self.ip("link", "set", "switch", "up")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._holder.stdin.close()
        self._holder.send_signal(signal.SIGKILL)
        self._holder.wait()
        self._holder.stdout.close()

    def wire(self, rank: int) -> Wire:
        """The cable of this rank, from 0."""
        return Wire(self, rank)

    def ip(self, *words: str) -> None:
        """`ip` in the switch's namespace. Raises WireError with what it says."""
        enter = ["nsenter", "--target", str(self._holder.pid), "--net", "ip", *words]
        done = subprocess.run(enter, capture_output=True, text=True)
        if done.returncode:
            raise WireError(done.stderr.strip())

    def passed(self, rank: int) -> Passed:
        """What this rank's room has sent and received so far."""
        for line in Path(f"/proc/{self._holder.pid}/net/dev").read_text().splitlines():
            name, _, numbers = line.partition(":")
            if name.strip() == f"to{rank}":
                # the switch receives what the room sends
                counted = numbers.split()
                return Passed(int(counted[0]), int(counted[8]))
        return Passed(0, 0)


class Wire:
    """One rank's cable."""

    def __init__(self, switch: Switch, rank: int) -> None:
        self.switch, self.rank, self.address = switch, rank, address_of(rank)

    def plug_in(self, pid: int) -> str:
        """Into the network namespace of process `pid`, as eth0; the address that it shall have."""
        here = f"to{self.rank}"
        self.switch.ip(
            *("link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        )
        self.switch.ip("link", "set", here, "master", "switch", "up")
        return self.address


def address_of(rank: int) -> str:
    """A rank's address on the switch."""
    return f"10.61.0.{rank + 1}"
