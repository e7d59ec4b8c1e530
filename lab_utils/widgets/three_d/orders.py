"""Axes in any order on the machines, and what a step costs in it.

The estimator lays ranks out in our order, dp outermost and tp innermost. A link's speed depends on
the order only by an axis's stride against the GPUs of a machine (estimate/time/links): neighbours
that stand k times as far apart on machines of 8 are as well off as ours on machines of 8 ÷ k. So
each axis is priced by the estimator itself, on machines of the size that its stride asks for.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from math import prod

from ...config import Cluster, TrainConfig
from ...estimate.hardware import cluster
from ...estimate.time.frameworks import OURS as ENGINE
from ...estimate.time.stages import StageClock
from ...estimate.time.step import step_parts

OURS = ("dp", "pp", "tp")  # the outermost first
MEGATRON = ("pp", "dp", "tp")
WRONG = ("tp", "pp", "dp")
ORDERS = (OURS, MEGATRON, WRONG)


def stride(sizes: Mapping[str, int], order: Sequence[str], axis: str) -> int:
    """How many ranks apart neighbours on an axis stand: the product of the sizes inside it."""
    return prod(sizes[name] for name in order[order.index(axis) + 1 :])


def machines_for(config: TrainConfig, gpu: str, order: Sequence[str], axis: str) -> Cluster:
    """The cluster on which our order gives `axis` the link that it has in `order` on machines of
    eight. Sizes are powers of two."""
    sizes = {name: getattr(config.parallel, name) for name in OURS}
    ours, theirs = (stride(sizes, one, axis) for one in (OURS, order))
    return _machines(gpu, max(1, cluster(gpu).ranks_per_node * ours // theirs))


def parts_in_order(config: TrainConfig, gpu: str, order: Sequence[str] = OURS) -> dict[str, float]:
    """Seconds of each part of a step: compute, bubble, optimizer, and waiting along tp, pp, dp."""
    tp, pp, dp = (machines_for(config, gpu, order, axis) for axis in ("tp", "pp", "dp"))
    step = step_parts(config, dp, clock=_clock(tp))  # stages send along tp, the rest along dp
    axes = {axis: step.axes[axis] for axis in ("tp", "pp", "dp")}
    if pp is not dp and config.parallel.pp > 1:
        axes["pp"] = step_parts(config, pp, clock=_clock(tp)).axes["pp"]
    return {"compute": step.compute, "bubble": step.bubble, "optimizer": step.optimizer} | axes


@functools.cache
def _machines(gpu: str, ranks: int) -> Cluster:
    return cluster(gpu, ranks)


_clocks: dict[int, StageClock] = {}


def _clock(machines: Cluster) -> StageClock:
    """One for all layouts on such machines, as the planner's; `_machines` keeps them alive."""
    return _clocks.setdefault(id(machines), StageClock(machines, ENGINE))
