"""`plan(model, cluster, gpus, global_batch) → [Plan, …]`: every layout that fits, fastest first,
each with what holds it back.

Times are those of `time/step.py`; memory is what our engine needs, to the byte (`needs.py`), asked
from the fastest layout on until enough fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from ...config import Cluster, ConfigError, ModelConfig, TrainConfig
from ...i18n import t
from ...layout.refusals import refuse_layout
from ..fit import RESERVED_BYTES
from ..limits import refuse_more_ranks
from ..time.frameworks import OURS, Framework
from ..time.stages import StageClock
from ..time.step import StepTime, refuse_unknown_rates, step_parts, step_time
from .needs import needed_bytes
from .pins import refuse_bad_pins
from .search import MICRO_BATCHES, RECOMPUTE, Search
from .words import nothing_fits, refuse_pins, why_slower


@dataclass(frozen=True)
class Plan:
    """One layout that fits. `seconds` per step, `memory_bytes` on the fullest rank; `parts` of the
    step in seconds.

    `why`: one sentence on where it loses against the fastest plan ("" for the fastest itself).
    """

    config: TrainConfig
    cluster: Cluster = field(repr=False)
    framework: Framework = field(repr=False)
    seconds: float
    memory_bytes: int
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


def plan(
    model: ModelConfig,
    cluster: Cluster,
    gpus: int,
    global_batch: int,
    *,
    precision: str = "bf16-pure",
    optimizer: str = "adamw",
    framework: Framework = OURS,
    top: int | None = 10,
    **pins: Any,
) -> list[Plan]:
    """The `top` fastest layouts of `model` on `gpus` GPUs of `cluster` (all of them if None),
    fastest first.

    `global_batch` counts sequences; `pins` are flags that are not to vary (tp=8, zero=1,
    micro_batch=1, …). Raises ConfigError with the nearest thing that works where nothing fits, or a
    pin makes no sense.
    """
    fitting = fitting_plans(
        model,
        cluster,
        gpus,
        global_batch,
        precision=precision,
        optimizer=optimizer,
        framework=framework,
        **pins,
    )
    found = list(islice(fitting, None if top is None else 2 * top + 4))
    # closed forms chose them; their pipelines are now played through where that is quick
    if top is not None:
        found = [
            replace(_priced(one.config, cluster, framework, None), memory_bytes=one.memory_bytes)
            for one in found
        ]
    if "micro_batch" not in pins:
        found = [_with_larger_micro_batches(one) for one in found]
    found.sort(key=lambda one: (one.seconds, one.memory_bytes))
    best = found[0]
    return [best, *(replace(one, why=why_slower(one, best)) for one in found[1:top])]


def _with_larger_micro_batches(one: Plan) -> Plan:
    """The same layout with micro-batches beyond those that the search tries, for as long as that
    makes it faster and it fits."""
    room = (one.cluster.memory_bytes or float("inf")) - RESERVED_BYTES
    while one.config.micro_batch >= MICRO_BATCHES[-1]:
        try:
            config = replace(one.config, micro_batch=2 * one.config.micro_batch)
            refuse_layout(config)
        except ConfigError:
            break
        held = needed_bytes(config, one.framework, one.cluster.kernels)
        wider = replace(_priced(config, one.cluster, one.framework, None), memory_bytes=held)
        if held > room or wider.seconds >= one.seconds:
            break
        one = wider
    return one


def fitting_plans(
    model: ModelConfig,
    cluster: Cluster,
    gpus: int,
    global_batch: int,
    *,
    precision: str = "bf16-pure",
    optimizer: str = "adamw",
    framework: Framework = OURS,
    **pins: Any,
) -> Iterator[Plan]:
    """The same, one after the other by closed forms of their times: whether the next one fits is
    found out when it is asked for.

    Of layouts that differ in recomputation only, the fastest that fits, which is the one with the
    least. Raises as `plan`.
    """
    search = Search(model, cluster, gpus, global_batch, precision, optimizer, framework, pins)
    refuse_bad_pins(model, gpus, pins)
    if isinstance(gpus, int):
        refuse_more_ranks(gpus)
    refuse_pins(model, cluster, gpus, global_batch, pins)
    room = (cluster.memory_bytes or float("inf")) - RESERVED_BYTES
    clock, candidates = StageClock(cluster, framework), []
    for group, config in search.candidates(room):
        refuse_unknown_rates(config, cluster)
        candidates.append((_priced(config, cluster, framework, clock), group))
    candidates.sort(key=lambda one: one[0].seconds)
    done: set[int] = set()
    for one, group in candidates:
        if (
            group not in done
            and (held := needed_bytes(one.config, framework, cluster.kernels)) <= room
        ):
            done.add(group)
            yield replace(one, memory_bytes=held)
    if not done:
        raise ConfigError(_nothing_fits(search, room))


def _priced(
    config: TrainConfig, cluster: Cluster, framework: Framework, clock: StageClock | None
) -> Plan:
    parts = step_parts(config, cluster, framework, clock=clock)
    named = {"compute": parts.compute, "bubble": parts.bubble, "optimizer": parts.optimizer} | {
        f"network: {axis}": s for axis, s in parts.axes.items()
    }
    return Plan(config, cluster, framework, parts.step, 0, named)


def _nothing_fits(search: Search, room: float) -> str:
    """One sentence: what the smallest layout needs, and the nearest change with which something
    fits."""
    # from the cheapest change to the dearest
    for name in (
        "recompute",
        "zero",
        "micro_batch",
        "schedule",
        "virtual_stages",
        "tp",
        "cp_kind",
        "cp",
        "pp",
        "dp",
    ):
        if name in search.pins:
            freed = replace(search, pins={k: v for k, v in search.pins.items() if k != name})
            if first := freed.smallest(room):
                return nothing_fits(search.smallest(), room, search.gpus, freed=(name, first[0]))
    more = search.gpus
    for _ in range(12):
        more *= 2
        larger = replace(search, gpus=more, global_batch=max(search.global_batch, more))
        if larger.smallest(room):
            return nothing_fits(search.smallest(), room, search.gpus, wider=more)
    return nothing_fits(search.smallest(), room, search.gpus)


def neighbours(best: Plan) -> list[tuple[TrainConfig, str]]:
    """Layouts one change away from `best`, each with why it loses: slower by what, or too large by
    how much."""
    room, found = (best.cluster.memory_bytes or float("inf")) - RESERVED_BYTES, []
    for config in _one_change_away(best.config):
        held = needed_bytes(config, best.framework, best.cluster.kernels)
        if held > room:
            found.append(
                (
                    config,
                    t(
                        f"does not fit: {held / 1e9:,.0f} GB a GPU, {room / 1e9:,.0f} are free.",
                        f"放不下：每张 GPU 需要 {held / 1e9:,.0f} GB，可用 {room / 1e9:,.0f} GB。",
                    ),
                )
            )
            continue
        found.append(
            (config, why_slower(_priced(config, best.cluster, best.framework, None), best))
        )
    return found


def _one_change_away(config: TrainConfig) -> Iterator[TrainConfig]:
    p = config.parallel
    changes: list[dict[str, Any]] = []
    for half, double in (
        ("tp", "dp"),
        ("tp", "pp"),
        ("pp", "dp"),
        ("dp", "tp"),
        ("dp", "pp"),
        ("pp", "tp"),
        ("cp", "dp"),
        ("cp", "pp"),
        ("dp", "cp"),
        ("pp", "cp"),
    ):
        if getattr(p, half) % 2 == 0:
            changes.append({half: getattr(p, half) // 2, double: getattr(p, double) * 2})
    changes += [{"zero": zero} for zero in range(4) if zero != p.zero]
    changes += [{"recompute": policy} for policy in RECOMPUTE if policy != config.recompute]
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
            other = replace(
                config, parallel=parallel, **{k: v for k, v in change.items() if not hasattr(p, k)}
            )
            refuse_layout(other)
        except ConfigError:
            continue
        yield other
