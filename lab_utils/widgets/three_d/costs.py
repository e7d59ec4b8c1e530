"""What the 3D planner counts: one step of each layout on 64 H100s, and the fastest one. Every
number is the estimator's."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from ...config import ConfigError, ModelConfig, TrainConfig
from ...config.presets import PRESETS
from ...estimate.fit import RESERVED_BYTES
from ...estimate.hardware import cluster
from ...estimate.plan import Plan, plan
from ...estimate.plan.needs import least_bytes, needed_bytes
from ...estimate.plan.search import RECOMPUTE
from ...estimate.time.frameworks import OURS
from ...estimate.time.stages import StageClock, model_flops
from ...estimate.time.step import peak_flops_per_second, step_parts
from ...layout.refusals import refuse_layout
from ..frame.controls import State

GPU, GPUS = cluster("H100-SXM"), 64  # eight machines of 8
MODELS = ("llama3-70b", "gpt3-175b")
BATCHES = (64, 512)
TP, PP, ZERO = (1, 2, 4, 8, 16), (1, 2, 4, 8), (0, 1, 3)
SETTING = ("model", "batch", "tp", "pp", "zero")
FREE_BYTES = GPU.memory_bytes - RESERVED_BYTES
_CLOCK = StageClock(GPU, OURS)  # one for all layouts, as the planner's
PARTS = ("compute", "bubble", "tp", "pp", "dp", "optimizer")


class Cost(NamedTuple):
    """One step of a layout: bytes on the fullest GPU, seconds in all and of each of PARTS, and
    MFU."""

    config: TrainConfig
    held: float
    seconds: float
    parts: Mapping[str, float]
    mfu: float

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU has room for it."""
        return self.held <= FREE_BYTES


def cost_of(state: State) -> Cost | None:
    """Of the layout of a state, with the least recomputation that fits; None where there are fewer
    key/value heads than tp ranks, or fewer GPUs than tp × pp."""
    if state["tp"] * state["pp"] > GPUS:
        return None
    return _cost(*(state[name] for name in SETTING))


@functools.lru_cache(maxsize=1024)
def _cost(model: str, batch: int, tp: int, pp: int, zero: int) -> Cost | None:
    config = TrainConfig.of(
        model,
        tp=tp,
        pp=pp,
        dp=GPUS // (tp * pp),
        zero=zero,
        sequence_parallel=tp > 1,
        bucket_mib=64.0,
        global_batch=batch,
        micro_batch=1,
        precision="bf16-pure",
    )
    try:
        refuse_layout(config)
    except ConfigError:
        return None
    for policy in RECOMPUTE:
        config = config.replace(recompute=policy)
        held = least_bytes(config, kernels=GPU.kernels)  # in microseconds, and no more than exact
        if held <= FREE_BYTES or policy == RECOMPUTE[-1]:
            held = needed_bytes(config, kernels=GPU.kernels)
        if held <= FREE_BYTES:
            break
    return _priced(config, held)


def _priced(config: TrainConfig, held: float) -> Cost:
    step = step_parts(config, GPU, clock=_CLOCK)
    parts = {"compute": step.compute, "bubble": step.bubble, "optimizer": step.optimizer}
    peak = step.step * GPUS * peak_flops_per_second(GPU)
    return Cost(config, held, step.step, parts | dict(step.axes), model_flops(config) / peak)


@functools.lru_cache(maxsize=16)
def best_of(model: str, batch: int) -> Cost:
    """The planner's fastest layout, with one sequence at a time and plain 1F1B."""
    shape = ModelConfig(**PRESETS[model])
    found: Plan = plan(shape, GPU, GPUS, batch, top=1, micro_batch=1, schedule="1f1b")[0]
    return _priced(found.config, found.memory_bytes)
