"""The planner beside what experts ran: does the published layout fit, and how far from our fastest
is it?

Run it for the table: `python tests/estimate/published_plans.py`. SC21's authors had neither
sequence parallelism nor ZeRO in Megatron nor selective recomputation: their rows are compared with
what they could choose. H100 rows: with ZeRO-1.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from published import H100, TABLE_1, Row, candidates, framework_of, machine

from lab_utils.estimate.hardware.fitted import SC21
from lab_utils.estimate.plan.needs import needed_bytes
from lab_utils.estimate.plan.planner import RESERVED_BYTES, Plan, fitting_plans
from lab_utils.estimate.plan.words import layout_words
from lab_utils.estimate.time.stages import StageClock
from lab_utils.estimate.time.step import step_parts

ROWS = {f"{row.table} {row.size}": row for row in (*TABLE_1, *H100)}


class Standing(NamedTuple):
    """A published layout among all that fit: bytes, seconds, the fastest plan, and its rank among
    all that fit."""

    row: Row
    held: int
    room: float
    seconds: float
    best: Plan
    rank: int

    @property
    def regret(self) -> float:
        """Predicted seconds ÷ the fastest plan's."""
        return self.seconds / self.best.seconds


@cache
def standing(name: str) -> Standing:
    """Of the row of that name. Seconds of search: not when tests are collected."""
    row = ROWS[name]
    cluster, framework, p = machine(row, SC21), framework_of(row), row.config.parallel
    means = (
        dict(zero=1)
        if row.table == "H100"
        else dict(zero=0, recompute="full", sequence_parallel=False)
    )
    schedules = {} if row.table == "H100" or p.pp == 1 else dict(schedule=p.schedule)
    clock, room = StageClock(cluster, framework), cluster.memory_bytes - RESERVED_BYTES
    seconds, held = min(
        (
            step_parts(config, cluster, framework, clock=clock).step,
            needed_bytes(config, framework, cluster.kernels),
        )
        for config in candidates(row)
    )
    best, faster = None, 0
    for one in fitting_plans(
        row.config.model,
        cluster,
        p.world_size,
        row.config.global_batch,
        framework=framework,
        **means,
        **schedules,
    ):
        best = best or one
        if one.seconds >= seconds * (1 - 1e-9):
            break
        faster += 1
    return Standing(row, held, room, seconds, best, faster + 1)


def main() -> None:
    for s in map(standing, ROWS):
        print(
            f"{s.row.table:12} {s.row.size:>5} on {s.row.config.parallel.world_size:5,} GPUs:"
            f" {layout_words(s.row.config)}: {s.held / 1e9:.0f} GB, {s.seconds:.2f} s, regret"
            f" {s.regret:.3f}, rank {s.rank}; fastest: {layout_words(s.best.config)}"
        )


if __name__ == "__main__":
    main()
