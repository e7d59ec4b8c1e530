"""What the ZeRO tool counts: bytes per rank and traffic per step of each of its settings. Every
number is the estimator's."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from ...config import TrainConfig
from ...estimate.memory import model_state_bytes
from ...estimate.traffic import step_traffic
from ...report import Traffic
from ..frame.controls import State

MODELS = ("tiny", "gpt2-xl", "llama3-8b", "llama3-70b")
RANKS = (2, 4, 8, 16, 32, 64, 256, 1024)
PRECISIONS = ("fp32", "bf16-pure")
OPTIMIZERS = ("adamw", "sgd")
MICRO_BATCHES = (1, 2, 8)
GPUS_GB = (24, 40, 80)

BETWEEN_STEPS = ("parameters", "gradients", "optimizer")
# each at most; the two need not come at the same moment
WHILE_RUNNING = ("gathered", "buckets")
FLAGS: dict[str, dict[str, Any]] = {
    "0": {"zero": 0},
    "1": {"zero": 1},
    "2": {"zero": 2},
    "3": {"zero": 3},
    "offload": {"zero": 3, "offload": True},
}


class Setting(NamedTuple):
    """All that is chosen but the stage."""

    model: str
    ranks: int
    precision: str
    optimizer: str
    micro_batches: int

    @classmethod
    def of(cls, state: State) -> Setting:
        """The setting of a tool's state; the optimizer, which travels nowhere, may be left open."""
        return cls(**{name: state.get(name, OPTIMIZERS[0]) for name in cls._fields})


@cache  # a tool has some 2,000 settings, and each of its scenes shows five of them
def config(setting: Setting, stage: str) -> TrainConfig:
    """The run that a setting describes: micro-batches of one sequence."""
    return TrainConfig.of(
        setting.model,
        dp=setting.ranks,
        global_batch=setting.ranks * setting.micro_batches,
        micro_batch=1,
        precision=setting.precision,
        optimizer=setting.optimizer,
        **FLAGS[stage],
    )


@cache
def memory(setting: Setting, stage: str) -> dict[str, int]:
    """Bytes of one rank by term, as a report names them; "offloaded" is in the host's memory."""
    return model_state_bytes(config(setting, stage))


@cache
def traffic(setting: Setting, stage: str) -> tuple[Traffic, ...]:
    """What one rank sends in one step."""
    return step_traffic(config(setting, stage))


def on_gpu(held: dict[str, int], terms: tuple[str, ...] = BETWEEN_STEPS + WHILE_RUNNING) -> int:
    """Bytes of these terms together."""
    return sum(held[term] for term in terms)


def sent(entries: tuple[Traffic, ...]) -> int:
    """Bytes that go over the wire."""
    return sum(entry.wire_bytes for entry in entries)


def fits(setting: Setting, stage: str, gigabytes: int) -> bool:
    """Whether a GPU of that size holds the model states and ZeRO's buffers."""
    return on_gpu(memory(setting, stage)) <= gigabytes * 10**9
