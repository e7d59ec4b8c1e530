"""Print what a launch says to every fault: `python tests/launch/fault_table.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faults import FAULTS, provoke  # noqa: E402


def fault_table() -> str:
    """Rows of: fault, rank, world, seconds to the error, processes left, what was said (its first
    line)."""
    lines = [f"{'fault':<17} {'rank':>4} {'world':>5} {'seconds':>7} {'left':>4}  said"]
    for fault in FAULTS:
        for world in (2, 4):
            for rank in (0, world - 1):
                outcome = provoke(fault, rank, world)
                said = outcome.said.partition("\n")[0]
                lines.append(
                    f"{fault:<17} {rank:>4} {world:>5} {outcome.seconds:>7.2f}"
                    f" {len(outcome.left):>4}  {said}"
                )
    return "\n".join(lines)


if __name__ == "__main__":
    print(fault_table())
