"""The numbers of both panels: Llama 3 8B, one sequence, on H100s that hold some layers each; bytes
from the estimator's ledger, seconds from its clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...config import TrainConfig
from ...estimate import estimate
from ...estimate.hardware import cluster
from ...estimate.time.pipeline import Timeline, simulate
from ...layout.schedule import make_schedule
from ...layout.stages import stage_layers
from ..pipeline_schedules.costs import Parts, parts

MODEL, DEVICES = "llama3-8b", (1, 2, 4, 8)
CUTS = (tuple(range(6, 11)), tuple(range(14, 19)), tuple(range(22, 28)))  # of four devices
TERMS = ("parameters", "gradients", "optimizer", "activations")


@lru_cache(maxsize=1)
def _bytes_of_parts() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Bytes by term of the embedding, of one block, and of the head with the loss: a rank that has
    one block alone tells, beside the first and the last."""
    layers = times().layers
    job = TrainConfig.of(
        MODEL, pp=layers, global_batch=1, micro_batch=1, precision="bf16-pure", schedule="gpipe"
    )
    ranks = estimate(job, cluster("H100-SXM")).ranks
    first, block, last = ({t: ranks[i].memory[t] for t in TERMS} for i in (0, 1, -1))
    embed, head = ({t: end[t] - block[t] for t in TERMS} for end in (first, last))
    return embed, block, head


def times() -> Parts:
    """Seconds of the model's parts."""
    return parts(MODEL)


def equal_sizes(devices: int) -> list[int]:
    """Layers of each device, dealt out equally."""
    return [len(layers) for layers in stage_layers(times().layers, devices)]


def held(sizes: Sequence[int]) -> list[dict[str, int]]:
    """Bytes by term that each device holds when the backward pass begins."""
    embed, block, head = _bytes_of_parts()
    found = []
    for device, layers in enumerate(sizes):
        ends = [part for part, at in ((embed, 0), (head, len(sizes) - 1)) if at == device]
        found.append({t: layers * block[t] + sum(part[t] for part in ends) for t in TERMS})
    return found


def device_seconds(sizes: Sequence[int]) -> list[tuple[float, float]]:
    """Forward and backward of each device."""
    part, found = times(), []
    for device, layers in enumerate(sizes):
        ends = [p for p, at in ((part.embed, 0), (part.head, len(sizes) - 1)) if at == device]
        found.append(tuple(layers * part.block[i] + sum(end[i] for end in ends) for i in (0, 1)))
    return found


@lru_cache(maxsize=16)
def one_batch(devices: int) -> Timeline:
    """One batch through equal numbers of layers."""
    seconds = device_seconds(equal_sizes(devices))
    return simulate(make_schedule("gpipe", devices, 1), *map(list, zip(*seconds, strict=True)))
