"""Runs of the production libraries beside one process of ours, in as few launches as there are
sizes of the world."""

from __future__ import annotations

import sys
from pathlib import Path

from lab_utils import TrainConfig, launch

sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
from equality import Run, gradient_error, loss_error, runs_on_rank, together  # noqa: E402

LLAMA = dict(norm="rmsnorm", activation="swiglu", positions="rope", heads=4, kv_heads=2, bias=False)
BASE = TrainConfig.of(
    "tiny", layers=2, hidden=32, heads=4, seq=16, steps=5, optimizer="sgd", global_batch=8
)


def alone(config: TrainConfig) -> TrainConfig:
    """The same training on one rank, the whole batch at once."""
    return config.replace(
        dp=1,
        tp=1,
        pp=1,
        zero=0,
        sequence_parallel=False,
        offload=False,
        schedule="1f1b",
        virtual_stages=1,
        recompute="none",
        micro_batch=None,
    )


def run_all(cases: dict[str, TrainConfig], engine: str) -> dict[str, Run]:
    """Every case by `engine`, by name."""
    found: dict[str, Run] = {}
    for world in sorted({config.parallel.world_size for config in cases.values()}):
        names = [name for name, config in cases.items() if config.parallel.world_size == world]
        here = [(cases[name], engine) for name in names]
        found.update(
            zip(
                names,
                together(here, launch(runs_on_rank, world, here, threads=1, timeout=300)),
                strict=True,
            )
        )
    return found


def run_alone(cases: dict[str, TrainConfig]) -> dict[str, Run]:
    """Every case by one process of ours, by name; what several cases share is run once."""
    references = {name: alone(config) for name, config in cases.items()}
    runs = run_all({repr(config): config for config in references.values()}, "ours")
    return {name: runs[repr(config)] for name, config in references.items()}


def check_alike(name: str, run: Run, reference: Run, tolerance: float) -> None:
    """Losses of all steps, and the first gradients, relative to their norm."""
    loss, gradients = loss_error(run, reference), gradient_error(run, reference)
    print(f"{name}: losses {loss:.1e}, first gradients {gradients:.1e} of their norm")
    assert loss <= tolerance
    assert gradients <= tolerance
