"""`plan(model, cluster, gpus, global_batch) → [Plan, …]`: every layout that fits, fastest first, each with what holds it back.

All products of tp, pp, virtual stages, ZeRO, micro-batch and recomputation are looked at; what cannot be better is left out:
tensor parallelism stays inside a node and comes with sequence parallelism (as fast, less memory), recomputation is the least
that fits, and GPipe never beats 1F1B. Times are those of `time/step.py`, memory that of `footprint.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...config import Cluster, ConfigError, ModelConfig, ParallelConfig, TrainConfig, divisors
from ...i18n import t
from ...layout.refusals import refuse_layout
from ..time.frameworks import OURS, Framework
from ..time.stages import StageClock
from ..time.step import StepTime, refuse_unknown_rates, step_parts, step_time
from .footprint import footprint_bytes
from .words import nothing_fits, refuse_pins, why_slower

RESERVED_BYTES = 4e9        # assumption: CUDA context, NCCL's buffers and what the allocator cannot use
_RECOMPUTE = ("none", "selective", "full")
_MICRO_BATCHES = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Plan:
    """One layout that fits. `seconds` per step, `memory_bytes` on the fullest rank; `parts` of the step in seconds.

    `why`: one sentence on where it loses against the fastest plan ("" for the fastest itself).
    """

    config: TrainConfig
    cluster: Cluster = field(repr=False)
    framework: Framework = field(repr=False)
    seconds: float
    memory_bytes: float
    parts: Mapping[str, float]
    why: str = ""

    @cached_property
    def time(self) -> StepTime:
        """The step in full, with its bottleneck."""
        return step_time(self.config, self.cluster, self.framework)

    @property
    def bottleneck(self) -> str:
        """What would shorten the step most if it were free (see StepTime)."""
        return self.time.bottleneck


@dataclass(frozen=True)
class _Search:
    """What the planner may vary, and what is pinned (flags of TrainConfig)."""

    model: ModelConfig
    cluster: Cluster
    gpus: int
    global_batch: int
    precision: str
    optimizer: str
    framework: Framework
    pins: Mapping[str, Any]

    def choices(self, name: str, usual: Sequence[Any]) -> Sequence[Any]:
        return (self.pins[name],) if name in self.pins else usual

    def grids(self) -> Iterator[tuple[int, int, int]]:
        """(tp, pp, dp) that use every GPU, give every rank whole heads and share the batch out equally."""
        node = self.cluster.ranks_per_node
        for tp in self.choices("tp", [d for d in divisors(self.gpus) if d <= node and self.model.kv_heads % d == 0 and self.model.ffn % d == 0]):
            for pp in self.choices("pp", [d for d in divisors(self.gpus // tp) if d <= self.model.layers]):
                dp = self.gpus // (tp * pp)
                if tp * pp * dp == self.gpus and self.global_batch % dp == 0 and self.pins.get("dp", dp) == dp:
                    yield tp, pp, dp

    def configs(self) -> Iterator[list[TrainConfig]]:
        """Groups that differ in recomputation only, the cheapest first."""
        for tp, pp, dp in self.grids():
            share = self.global_batch // dp
            for micro in self.choices("micro_batch", [b for b in _MICRO_BATCHES if share % b == 0]):
                if share % micro:
                    continue
                for schedule, v in self._schedules(pp, share // micro):
                    for zero in self.choices("zero", (0, 1, 2, 3) if dp > 1 else (0,)):
                        group = [self._config(tp, pp, dp, micro, schedule, v, zero, policy) for policy in self.choices("recompute", _RECOMPUTE)]
                        yield [config for config in group if config is not None]

    def _schedules(self, pp: int, m: int) -> Iterator[tuple[str, int]]:
        usual = ["1f1b", "zero-bubble", "interleaved"] if pp > 1 else ["1f1b"]
        for schedule in self.choices("schedule", usual):
            if schedule != "interleaved":
                yield schedule, 1
            elif m % pp == 0:
                most = self.model.layers // pp
                yield from ((schedule, v) for v in self.choices("virtual_stages", [v for v in (2, 3, 4, 5, 6, 7, 8, 12) if v <= most]) if 1 < v <= most)

    def _config(self, tp: int, pp: int, dp: int, micro: int, schedule: str, v: int, zero: int, policy: str) -> TrainConfig | None:
        scattered = self.pins.get("sequence_parallel", tp > 1 and self.model.seq % tp == 0)
        parallel = ParallelConfig(tp=tp, pp=pp, dp=dp, zero=zero, schedule=schedule, virtual_stages=v, sequence_parallel=scattered, bucket_mib=64.0)
        config = TrainConfig(model=self.model, parallel=parallel, global_batch=self.global_batch, micro_batch=micro, precision=self.precision,
                             optimizer=self.optimizer, recompute=policy)  # fmt: skip
        try:
            refuse_layout(config)
        except ConfigError:
            return None
        return config

    def fitting(self, room: float) -> Iterator[tuple[TrainConfig, float]]:
        """(configuration, bytes) with the least recomputation that fits into `room`."""
        for group in self.configs():
            for config in group:
                if (held := footprint_bytes(config, self.framework)) <= room:
                    yield config, held
                    break

    def smallest(self) -> tuple[TrainConfig, float] | None:
        """The layout that needs least memory, fitting or not."""
        found = [(footprint_bytes(config, self.framework), i, config) for i, group in enumerate(self.configs()) for config in group[-1:]]
        return (min(found)[2], min(found)[0]) if found else None


def plan(model: ModelConfig, cluster: Cluster, gpus: int, global_batch: int, *, precision: str = "bf16-pure", optimizer: str = "adamw",
         framework: Framework = OURS, top: int | None = 10, **pins: Any) -> list[Plan]:  # fmt: skip
    """The `top` fastest layouts of `model` on `gpus` GPUs of `cluster` (all of them if None), fastest first.

    `global_batch` counts sequences; `pins` are flags that are not to vary (tp=8, zero=1, micro_batch=1, …). Raises ConfigError
    with the nearest thing that works where nothing fits, or a pin makes no sense.
    """
    search = _Search(model, cluster, gpus, global_batch, precision, optimizer, framework, pins)
    refuse_pins(model, cluster, gpus, global_batch, pins)
    room = (cluster.memory_bytes or float("inf")) - RESERVED_BYTES
    clock, found = StageClock(cluster, framework), []
    for config, held in search.fitting(room):
        refuse_unknown_rates(config, cluster)
        found.append(_priced(config, held, cluster, framework, clock))
    if not found:
        raise ConfigError(_nothing_fits(search, room))
    found.sort(key=_order)
    if top is not None:         # closed forms chose them; their pipelines are now played through where that is quick
        found = sorted((_priced(one.config, one.memory_bytes, cluster, framework, None) for one in found[: 2 * top + 4]), key=_order)
    best = found[0]
    return [best, *(replace(one, why=why_slower(one, best)) for one in found[1:top])]


def _priced(config: TrainConfig, held: float, cluster: Cluster, framework: Framework, clock: StageClock | None) -> Plan:
    parts = step_parts(config, cluster, framework, clock=clock)
    named = {"compute": parts.compute, "bubble": parts.bubble, "optimizer": parts.optimizer} | {f"network: {axis}": s for axis, s in parts.axes.items()}
    return Plan(config, cluster, framework, parts.step, held, named)


def _order(one: Plan) -> tuple[float, float]:
    return one.seconds, one.memory_bytes


def _nothing_fits(search: _Search, room: float) -> str:
    """One sentence: what the smallest layout needs, and the nearest change with which something fits."""
    for name in ("recompute", "zero", "micro_batch", "tp", "pp"):       # from the cheapest change to the dearest
        if name in search.pins:
            freed = replace(search, pins={k: v for k, v in search.pins.items() if k != name})
            if first := next(freed.fitting(room), None):
                return nothing_fits(search.smallest(), room, search.gpus, freed=(name, first[0]))
    more = search.gpus
    for _ in range(12):
        more *= 2
        larger = replace(search, gpus=more, global_batch=max(search.global_batch, more))
        if next(larger.fitting(room), None):
            return nothing_fits(search.smallest(), room, search.gpus, wider=more)
    return nothing_fits(search.smallest(), room, search.gpus)


def neighbours(best: Plan) -> list[tuple[TrainConfig, str]]:
    """Layouts one change away from `best`, each with why it loses: slower by what, or too large by how much."""
    room, found = (best.cluster.memory_bytes or float("inf")) - RESERVED_BYTES, []
    for config in _one_change_away(best.config):
        held = footprint_bytes(config, best.framework)
        if held > room:
            found.append((config, t(f"does not fit: {held / 1e9:,.0f} GB a GPU, {room / 1e9:,.0f} are free.",
                                    f"放不下：每张 GPU 需要 {held / 1e9:,.0f} GB，可用 {room / 1e9:,.0f} GB。")))
            continue
        found.append((config, why_slower(_priced(config, held, best.cluster, best.framework, None), best)))
    return found


def _one_change_away(config: TrainConfig) -> Iterator[TrainConfig]:
    p = config.parallel
    changes: list[dict[str, Any]] = []
    for half, double in (("tp", "dp"), ("tp", "pp"), ("pp", "dp"), ("dp", "tp"), ("dp", "pp"), ("pp", "tp")):
        if getattr(p, half) % 2 == 0:
            changes.append({half: getattr(p, half) // 2, double: getattr(p, double) * 2})
    changes += [{"zero": zero} for zero in range(4) if zero != p.zero]
    changes += [{"recompute": policy} for policy in _RECOMPUTE if policy != config.recompute]
    changes += [{"micro_batch": config.micro_batch * 2}, {"micro_batch": config.micro_batch // 2}]
    for change in changes:
        if change.get("tp", p.tp) > 1:
            change.setdefault("sequence_parallel", p.sequence_parallel or p.tp == 1)
        else:
            change["sequence_parallel"] = False
        if change.get("pp", p.pp) == 1:
            change |= {"schedule": "1f1b", "virtual_stages": 1}
        try:
            parallel = replace(p, **{k: v for k, v in change.items() if hasattr(p, k)})
            other = replace(config, parallel=parallel, **{k: v for k, v in change.items() if not hasattr(p, k)})
            refuse_layout(other)
        except ConfigError:
            continue
        yield other
