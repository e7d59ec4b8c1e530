"""`step_time(config, cluster) → StepTime`: seconds of one optimizer step of any layout, and what it
is bound by.

Micro-batches pass through the stages (`stages.py`, `schedule.py`); gradients and gathered weights
travel along dp under compute as far as there is compute to travel under; the optimizer reads and
writes its states; what is left over waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...config import Cluster, ConfigError, TrainConfig
from ...i18n import t
from .frameworks import OURS, Framework
from .pass_time import PassTime
from .schedule import pipeline_seconds
from .stages import StageClock, model_flops
from .wires import Wires

RESOURCES = (
    "compute",
    "memory bandwidth",
    "network: tp",
    "network: cp",
    "network: pp",
    "network: dp",
    "bubble",
    "latency",
)


@dataclass(frozen=True)
class StepTime:
    """One optimizer step, in seconds, of the rank that has most to do. compute + communication +
    bubble + optimizer = step.

    `compute`: forward, backward and recomputation. `communication`: what the rank stands still for,
    `axis_seconds` of it by axis; `hidden`: messages that travel under compute.
    """

    compute: float
    communication: float
    hidden: float
    bubble: float
    optimizer: float
    axis_seconds: Mapping[str, float]
    tokens_per_second: float
    mfu: float
    _question: tuple[TrainConfig, Cluster, Framework] = field(repr=False, compare=False)

    @cached_property
    def step(self) -> float:
        """The whole step."""
        return self.compute + self.communication + self.bubble + self.optimizer

    @cached_property
    def savings(self) -> Mapping[str, float]:
        """By how many seconds the step would shrink if the resource were free, predicted anew
        without it."""
        return {
            resource: max(0.0, self.step - _without(resource, *self._question))
            for resource in RESOURCES
        }

    @property
    def bottleneck(self) -> str:
        """The resource that would shorten the step most if it were free."""
        return max(self.savings, key=self.savings.__getitem__)


@dataclass(frozen=True)
class _Parts:
    compute: float
    bubble: float
    optimizer: float
    hidden: float
    axes: Mapping[str, float]

    @property
    def step(self) -> float:
        return self.compute + self.bubble + self.optimizer + sum(self.axes.values())


def step_time(config: TrainConfig, cluster: Cluster, framework: Framework = OURS) -> StepTime:
    """Predict one step of `config` on `cluster`, carried out as `framework` does.

    MFU counts the model's FLOPs (recomputation not counted, causal attention whole) against the
    cluster's peak, or where that is not known against its achieved rate. Raises ConfigError where
    the cluster's rates are not known.
    """
    refuse_unknown_rates(config, cluster)
    parts = step_parts(config, cluster, framework)
    tokens = config.global_batch * config.model.seq
    return StepTime(
        parts.compute,
        sum(parts.axes.values()),
        parts.hidden,
        parts.bubble,
        parts.optimizer,
        parts.axes,
        tokens / parts.step,
        model_flops(config)
        / (parts.step * peak_flops_per_second(cluster) * config.parallel.world_size),
        (config, cluster, framework),
    )


def peak_flops_per_second(cluster: Cluster) -> float:
    """What MFU is counted against: the data sheet's bf16 rate, or where that is not known the rate
    that large products reach."""
    return cluster.peak_flops_per_second or cluster.flops_per_second


def rates_are_known(config: TrainConfig, cluster: Cluster) -> bool:
    """Whether the cluster says how fast it computes and, where there are several ranks, how fast
    they send. Of fp8 nobody has measured it here."""
    return (
        config.precision != "fp8"
        and cluster.flops_per_second is not None
        and (
            config.parallel.world_size == 1
            or cluster.link_bytes_per_second is not None
            or bool(cluster.collectives)
        )
    )


def refuse_unknown_rates(config: TrainConfig, cluster: Cluster) -> None:
    """Raise ConfigError where a time would be a guess."""
    if not rates_are_known(config, cluster):
        raise ConfigError(
            t(
                f"the speed of {cluster.name} is not known: give its FLOP/s and link bandwidth,"
                " name a GPU, or run doctor --calibrate.",
                f"不知道 {cluster.name} 的速度：请给出算力与链路带宽，指定一种 GPU，或运行 doctor"
                " --calibrate。",
            )
        )


def step_parts(
    config: TrainConfig,
    cluster: Cluster,
    framework: Framework = OURS,
    free: frozenset[str] = frozenset(),
    clock: StageClock | None = None,
) -> _Parts:
    """The step's parts in seconds; `free` axes ("tp", "cp", "pp", "dp") carry messages in no time,
    "bubble" fills itself.

    A planner passes one `clock` for all its layouts; pipelines of unequal stages are then priced by
    closed forms only.
    """
    p, m = config.parallel, config.micro_batches
    stages = (clock or StageClock(cluster, framework, free)).stages(config)
    wires = Wires(config, cluster, framework, free)
    by_rank = [sum(stages[r + p.pp :: p.pp], stages[r]) for r in range(p.pp)]
    slowest = max(by_rank, key=lambda rank: rank.compute + rank.waiting)
    compute, tp, message = m * slowest.compute, m * slowest.waiting, wires.message_seconds

    def whole(on_wire: float, blocked: float) -> float:
        return pipeline_seconds(
            p.schedule,
            p.pp,
            m,
            [s.forward + s.tp_forward + blocked for s in stages],
            [s.backward + s.tp_backward + blocked for s in stages],
            [s.weight for s in stages],
            on_wire,
            play=clock is None,
        )

    ideal = whole(0.0, 0.0)
    with_messages = (
        ideal
        if not message
        else whole(0.0, message)
        if framework.blocking_messages
        else whole(message, 0.0)
    )
    bubble, late = _shared_cores(
        config, cluster, by_rank, m, compute, max(0.0, ideal - compute - tp)
    )
    waiting, hidden = (
        wires.zero3(slowest, m)
        if p.zero == 3
        else wires.gradients(slowest.backward + slowest.weight, m)
    )
    update, gather_updated = wires.optimizer()
    under, along_cp = m * slowest.tp_hidden, m * slowest.cp
    axes = {
        "tp": tp - along_cp + cluster.overlap_cost * under,
        "cp": along_cp,
        "pp": with_messages - ideal,
        "dp": waiting + gather_updated + cluster.overlap_cost * hidden,
    }
    return _Parts(compute + late, 0.0 if "bubble" in free else bubble, update, hidden + under, axes)


def _shared_cores(
    config: TrainConfig,
    cluster: Cluster,
    by_rank: list[PassTime],
    m: int,
    compute: float,
    bubble: float,
) -> tuple[float, float]:
    """(bubble, further seconds of compute) where more ranks than cores take turns: a waiting rank's
    core goes to another."""
    p = config.parallel
    if cluster.cores is None or p.world_size <= cluster.cores:
        return bubble, 0.0
    work = m * sum(r.compute for r in by_rank) * p.tp * p.replicas / cluster.cores
    late = max(0.0, work - compute)
    return max(0.0, bubble - late), late


def _without(resource: str, config: TrainConfig, cluster: Cluster, framework: Framework) -> float:
    """Seconds of the step if this resource were free. The bubble stays as it is unless it is the
    one: faster ranks wait less, but what they waited is put down to the schedule."""
    axes = (
        frozenset({resource.removeprefix("network: ")})
        if resource.startswith("network")
        else frozenset({"bubble"} if resource == "bubble" else ())
    )
    changes = {
        "compute": dict(flops_per_second=1e30, flops_by_precision={}),
        "memory bandwidth": dict(
            hbm_bytes_per_second=1e30,
            kernel_bytes_per_second={},
            memory_share_by_size=(),
            host_memory_bytes_per_second=1e30,
            host_link_bytes_per_second=1e30,
        ),
        "latency": dict(launch_seconds=0.0, link_latency_seconds=0.0, network_latency_seconds=0.0),
    }.get(resource, {})
    parts = step_parts(config, cluster.replace(**changes), framework, axes)
    return (
        parts.step
        if resource == "bubble"
        else parts.step - parts.bubble + step_parts(config, cluster, framework).bubble
    )
