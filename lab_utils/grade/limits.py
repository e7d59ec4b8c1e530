"""What a submission may use, and how a run of it ended."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """For one submission at a time: all of its processes together.

    wall_s:         seconds by the grader's clock
    memory_bytes:   resident memory that is not shared with files
    output_bytes:   of what it prints; more ends it
    processes:      at one moment, threads not counted
    threads:        besides them: where a fork without end stops by itself, before it is seen
    disk_bytes:     in each of its own /tmp and /dev/shm
    """

    wall_s: float = 60.0
    memory_bytes: int = 4_000_000_000
    output_bytes: int = 1_000_000
    processes: int = 32
    threads: int = 32
    disk_bytes: int = 256_000_000


@dataclass
class Ended:
    """How a run ended, by what the grader saw. `reason`: "done" (it ended itself, with `status`),
    or the limit that ended it: "wall_s", "memory_bytes", "output_bytes", "processes"; "closed" if
    the grader was through with it.

    status:         exit status; −n for signal n; None where a limit ended it
    seconds:        from start to end
    printed:        the first bytes of its output and errors, in the order in which they came
    missing:        protections that this machine does not give, by name, with the reason
    """

    reason: str
    status: int | None
    seconds: float
    printed: bytes
    missing: dict[str, str] = field(default_factory=dict)
