"""The layouts in which every optimizer is tried, and runs of many in one launch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lab_utils import TrainConfig
from lab_utils.engines.fragments import Fragment, assemble
from lab_utils.layout.parameters import parameter_shapes
from lab_utils.report import RankReport

KINDS = ("adam", "adamw", "sgd", "lion", "adafactor", "adam8bit", "muon")
SMALL = TrainConfig.of(
    layers=2,
    hidden=48,
    heads=6,
    kv_heads=3,
    ffn=100,
    vocab=257,
    seq=24,
    steps=5,
    global_batch=12,
    micro_batch=2,
    weight_decay=0.1,
    lr_schedule="cosine",
    warmup=2,
    bucket_mib=0.02,
)
# 4,096 elements of a matrix and more, so that 8-bit Adam has blocks to cut
WIDE = SMALL.replace(hidden=96, ffn=200)
LAYOUTS = [
    dict(dp=2),
    dict(dp=2, zero=1),
    dict(dp=2, zero=2),
    dict(dp=2, zero=3),
    dict(dp=3, zero=1, micro_batch=1),
    dict(dp=3, zero=3, micro_batch=1, tied=True),
    dict(dp=4, zero=2, micro_batch=1),
    dict(tp=2),
    dict(tp=3),
    dict(tp=3, sequence_parallel=True),
    dict(pp=2, tied=True),
    dict(pp=2, schedule="interleaved", layers=4, virtual_stages=2),
    dict(cp=2, zero=1),
    dict(dp=2, zero=1, offload=True),
    dict(dp=2, tp=2, zero=1),
    dict(dp=2, tp=2, zero=2, sequence_parallel=True, clip=0.5),
    dict(dp=2, tp=2, zero=3),
    dict(dp=2, pp=2, zero=1, clip=0.5),
    dict(dp=2, pp=2, zero=3),
    dict(tp=2, pp=2),
    dict(dp=2, pp=2, tp=2, zero=1),
]
LAYOUT_FLAGS = (
    "dp",
    "tp",
    "pp",
    "cp",
    "zero",
    "offload",
    "sequence_parallel",
    "schedule",
    "virtual_stages",
)


def config_of(kind: str, layout: dict) -> TrainConfig:
    """One optimizer in one layout."""
    return WIDE.replace(optimizer=kind, **layout)


def alone(kind: str, layout: dict) -> TrainConfig:
    """The same training on one process."""
    one = {flag: value for flag, value in layout.items() if flag not in LAYOUT_FLAGS}
    return WIDE.replace(optimizer=kind, **one | {"micro_batch": 2})


@dataclass(frozen=True)
class Trained:
    """Losses, the weights after the last step, and what the ranks reported."""

    losses: list[float]
    weights: dict[str, np.ndarray]
    ranks: tuple[RankReport, ...]
    flops: dict[str, int]


def weights_error(run: Trained, reference: Trained) -> float:
    """Norm of the difference ÷ norm, over all parameters."""
    pairs = [
        (run.weights[name].astype(float), x.astype(float)) for name, x in reference.weights.items()
    ]
    return (
        sum(((a - b) ** 2).sum() for a, b in pairs) / sum((b**2).sum() for _, b in pairs)
    ) ** 0.5


def train_on_rank(configs: list[TrainConfig]) -> list[tuple]:
    """On a rank: (losses, weights, report, flops) of each."""
    from lab_utils.engines.ours import OurEngine, loader_here
    from lab_utils.measure.time import StepClock  # noqa: F401
    from lab_utils.parallel.mesh import Mesh
    from lab_utils.train.loop import counted_step_of

    found = []
    for config in configs:
        mesh = Mesh(config.parallel)
        engine, loader = OurEngine(config, mesh), loader_here(config, mesh)
        losses = []
        for step in range(config.steps):
            batch = loader.batch(step)
            mesh.ledger.clear()
            if step == 1:
                loss, _, memory, traffic, flops = counted_step_of(engine, batch, mesh)
            else:
                loss = engine.forward_backward(batch)
                engine.update()
            losses.append(loss)
        report = RankReport(mesh.rank, mesh.coords, memory, traffic)
        found.append((losses, engine.weight_fragments(), report, flops))
    return found


def put_together(configs: list[TrainConfig], by_rank: list[list[tuple]]) -> list[Trained]:
    """One result per configuration from what the ranks brought home."""
    found = []
    for i, config in enumerate(configs):
        results = [rank[i] for rank in by_rank]
        tokens = config.global_batch * config.model.seq
        losses = [sum(sums) / tokens for sums in zip(*(r[0] for r in results), strict=True)]
        pieces: list[Fragment] = [piece for r in results for piece in r[1]]
        weights = assemble(pieces, parameter_shapes(config.model))
        flops = {kind: sum(r[3][kind] for r in results) for kind in results[0][3]}
        found.append(Trained(losses, weights, tuple(r[2] for r in results), flops))
    return found
