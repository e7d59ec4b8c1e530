"""What the gradient-checkpointing tool counts: saved bytes through one step and FLOPs done twice.
Every number is the estimator's."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

from ...config import TrainConfig
from ...estimate.memory.curve import step_curve
from ...estimate.ops import step_flops

LAYERS = 6
# written out, so that its scores are saved too
FLAGS = {"attention": "explicit", "seq": 256, "global_batch": 4, "micro_batch": 4}
ATTENTION = "selective"
PRESETS = {
    "none": "none",
    "alternate": "0,2,4",
    "but_last": "0,1,2,3,4",
    "full": "0,1,2,3,4,5",
    "attention": ATTENTION,
}


class Point(NamedTuple):
    """Saved bytes when an operation begins, and its most where that is more than before and after.
    `part`: the layer's number, or "embed" or "head_loss"; `phase`: forward, backward, recompute."""

    part: int | str
    phase: str
    saved: int


class Curve(NamedTuple):
    """One step: its points in order, and the most bytes saved at once."""

    points: tuple[Point, ...]
    peak: int


def policies() -> list[str]:
    """Every choice that can be made, as TrainConfig.recompute: each set of layers, and only the
    attention of all."""
    chosen = [
        ",".join(map(str, layers))
        for count in range(1, LAYERS + 1)
        for layers in combinations(range(LAYERS), count)
    ]
    return ["none", *chosen, ATTENTION]


def recomputed(policy: str) -> frozenset[int]:
    """The layers that run forward twice as a whole."""
    return frozenset(config(policy).recomputed_layers())


@cache
def config(policy: str) -> TrainConfig:
    """The run: `small` with six layers, four sequences of 256 tokens."""
    return TrainConfig.of("small", **FLAGS, recompute=policy)


@cache
def curve(policy: str) -> Curve:
    """What is saved for the backward pass, operation by operation."""
    points, saved = [], 0
    for moment in step_curve(config(policy)):
        if moment.phase == "update" or moment.label == "begin":
            continue
        point, before, saved = (
            Point(_part(moment.label), moment.phase, saved),
            saved,
            moment.live["activations"],
        )
        points.append(point)
        if moment.saved_peak_bytes > max(before, saved):
            # came and went within the operation
            points.append(point._replace(saved=moment.saved_peak_bytes))
    points.append(Point("embed", "forward", saved))
    return Curve(tuple(points), max(point.saved for point in points))


def _part(scope: str) -> int | str:
    if scope.startswith("blocks."):
        return int(scope.split(".")[1])
    return "embed" if scope.endswith("_embedding") else "head_loss"


@cache
def flops(policy: str) -> int:
    """Of one step, with what is done twice."""
    return int(step_flops(config(policy))["hardware"])


def extra_work(policy: str) -> float:
    """FLOPs done twice, as a share of a step without recomputation."""
    return flops(policy) / flops("none") - 1
