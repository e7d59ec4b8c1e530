"""What the data-parallelism tool counts: one step of each of its settings. Every number is the
estimator's."""

from __future__ import annotations

import functools
from typing import Any

from ...config import Cluster, TrainConfig
from ...config.presets import PRESETS
from ...estimate.hardware import cluster
from ...estimate.time import DataParallelStep, data_parallel_step
from ..frame.controls import State

RANKS = (1, 2, 3, 4, 8, 64, 1024)
MODELS = ("tiny", "gpt2", "llama3-8b")
GPU = cluster("H100-SXM")
# bytes per second, one way
LINKS = {"1": 0.125e9, "10": 1.25e9, "100": 12.5e9, "nvlink": GPU.link_bytes_per_second}
TOKENS = (2**14, 2**17, 2**18, 2**20)  # on one rank, in one step: whole sequences of every model
SYNCS: dict[str, dict[str, Any]] = {
    "naive": {"gradient_sync": "naive"},
    "1": {"bucket_mib": 1},
    "25": {"bucket_mib": 25},
    "100": {"bucket_mib": 100},
    "one": {"bucket_mib": 2**20},
}
SETTING = ("model", "tokens", "sync", "link", "ranks")


def step_of(state: State) -> DataParallelStep:
    """The estimator's step in a state of the tool."""
    return _estimated(*(state[name] for name in SETTING))


@functools.lru_cache(maxsize=2)
def efficiencies(model: str, tokens: int, sync: str, link: str) -> tuple[float, ...]:
    """Scaling efficiency for every N of RANKS."""
    return tuple(_estimated(model, tokens, sync, link, ranks).scaling_efficiency for ranks in RANKS)


def latency_seconds(link: str) -> float:
    """What a message takes beside its bytes."""
    return _cluster(link).link_latency_seconds


# the table asks in the order of SETTING, so the ranks run fastest; each scene shows all of them
@functools.lru_cache(maxsize=2 * len(RANKS))
def _estimated(model: str, tokens: int, sync: str, link: str, ranks: int) -> DataParallelStep:
    return data_parallel_step(_config(model, tokens, sync, ranks), _cluster(link))


@functools.lru_cache(maxsize=2 * len(RANKS))
def _config(model: str, tokens: int, sync: str, ranks: int) -> TrainConfig:
    batch = ranks * tokens // PRESETS[model]["seq"]
    return TrainConfig.of(model, dp=ranks, global_batch=batch, precision="bf16", **SYNCS[sync])


def _cluster(link: str) -> Cluster:
    """The GPU with this link between neighbours of the ring, however many ranks there are."""
    latency = GPU.link_latency_seconds if link == "nvlink" else GPU.network_latency_seconds
    return GPU.replace(
        network_bytes_per_second=None,
        link_bytes_per_second=LINKS[link],
        link_latency_seconds=latency,
    )
