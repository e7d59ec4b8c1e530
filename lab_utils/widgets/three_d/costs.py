"""What the 3D planner counts: one step of each layout on each cluster. Seconds are the estimator's,
counted when the page is made; bytes are too, kept in held.json because they take long."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from ...config import Cluster, ConfigError, TrainConfig
from ...estimate.fit import RESERVED_BYTES
from ...estimate.hardware import cluster
from ...estimate.plan.needs import least_bytes
from ...estimate.plan.search import RECOMPUTE
from ...estimate.time.stages import model_flops
from ...estimate.time.step import peak_flops_per_second
from ...layout.refusals import refuse_layout
from ..frame.controls import State
from .held import held_bytes
from .orders import OURS, parts_in_order


class Site(NamedTuple):
    """A cluster to choose: `gpu` of the hardware table, how many, what a reader calls it."""

    gpu: str
    gpus: int
    name: str

    @property
    def hardware(self) -> Cluster:
        """Its rates, eight GPUs to a machine."""
        return cluster(self.gpu)

    @property
    def free_bytes(self) -> float:
        """What a layout may use of each GPU."""
        return self.hardware.memory_bytes - RESERVED_BYTES


SITES = {
    "a100-8": Site("A100-80", 8, "8 × A100 80 GB"),
    "a100-64": Site("A100-80", 64, "64 × A100 80 GB"),
    "h100-64": Site("H100-SXM", 64, "64 × H100 80 GB"),
    "b200-64": Site("B200", 64, "64 × B200 180 GB"),
    "h100-512": Site("H100-SXM", 512, "512 × H100 80 GB"),
}
MODELS = ("llama3-8b", "llama3-70b", "gpt3-175b")
SHARES = (1, 8)  # sequences a GPU
TP, PP, ZERO = (1, 2, 4, 8, 16), (1, 2, 4, 8), (0, 1, 3)
QUESTION = ("site", "model", "share")
SETTING = (*QUESTION, "tp", "pp", "zero")
PARTS = ("compute", "bubble", "tp", "pp", "dp", "optimizer")


class Cost(NamedTuple):
    """One step of a layout: bytes on the fullest GPU and what is free there, seconds in all and of
    each of PARTS, and MFU."""

    config: TrainConfig
    held: float
    free: float
    seconds: float
    parts: Mapping[str, float]
    mfu: float

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU has room for it."""
        return self.held <= self.free


def cost_of(state: State, order: tuple[str, ...] = OURS) -> Cost | None:
    """Of the layout of a state, its axes in an order (outermost first), with the least
    recomputation that fits; None where there are fewer key/value heads than tp ranks, or fewer GPUs
    than tp × pp."""
    if state["tp"] * state["pp"] > SITES[state["site"]].gpus:
        return None
    return _cost(*(state[name] for name in SETTING), order)


def config_of(
    site: Site, model: str, share: int, tp: int, pp: int, zero: int, recompute: str = "none"
) -> TrainConfig:
    """The run that a state describes: one sequence at a time, plain 1F1B."""
    return TrainConfig.of(
        model,
        tp=tp,
        pp=pp,
        dp=site.gpus // (tp * pp),
        zero=zero,
        sequence_parallel=tp > 1,
        bucket_mib=64.0,
        global_batch=share * site.gpus,
        micro_batch=1,
        precision="bf16-pure",
        recompute=recompute,
    )


@functools.lru_cache(maxsize=8192)
def _cost(
    place: str, model: str, share: int, tp: int, pp: int, zero: int, order: tuple[str, ...]
) -> Cost | None:
    found = _least_recomputed(place, model, share, tp, pp, zero)
    return found and priced(SITES[place], *found, order)


@functools.lru_cache(maxsize=4096)
def _least_recomputed(place: str, *layout: int | str) -> tuple[TrainConfig, float] | None:
    site = SITES[place]
    config = config_of(site, *layout)
    try:
        refuse_layout(config)
    except ConfigError:
        return None
    for policy in RECOMPUTE:
        config = replace(config, recompute=policy)
        held = least_bytes(config, kernels=site.hardware.kernels)  # no more than exact, and quick
        if held <= site.free_bytes or policy == RECOMPUTE[-1]:
            held = held_bytes(config)
        if held <= site.free_bytes:
            break
    return config, held


def priced(site: Site, config: TrainConfig, held: float, order: tuple[str, ...] = OURS) -> Cost:
    """The step of a layout that needs `held` bytes."""
    parts = parts_in_order(config, site.gpu, order)
    seconds = sum(parts.values())
    peak = seconds * site.gpus * peak_flops_per_second(site.hardware)
    return Cost(config, held, site.free_bytes, seconds, parts, model_flops(config) / peak)
