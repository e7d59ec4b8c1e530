"""What every rank does from its first to its last step, with the instruments reading along.

Step 0 warms up, step 1 is the one whose bytes, traffic and FLOPs are counted (optimizer states
exist by then, and the instruments slow it), steps from 2 on are timed.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..config import TrainConfig
from ..data.loader import StepBatch
from ..engines import make_engine
from ..engines.engine import Engine
from ..engines.fragments import Fragment
from ..engines.ours import loader_here
from ..launch import emit
from ..measure.flops import FlopMeter
from ..measure.live import LiveStorages
from ..measure.memory import SavedActivations, held_bytes
from ..measure.time import StepClock
from ..measure.traffic import summarize
from ..parallel.mesh import Mesh
from ..report import RankReport, Traffic


@dataclass
class RankResult:
    """What a rank brings home: its part of the report, its loss sums per step, its FLOPs in one
    step.

    `loss_scale`: under fp16, the scale of every step and whether the step was skipped.
    """

    report: RankReport
    loss_sums: list[float]
    flops: dict[str, int]
    device: str
    gradients: list[Fragment] = field(default_factory=list)
    loss_scale: list[tuple[float, bool]] = field(default_factory=list)


def run_rank(config: TrainConfig, engine_name: str, keep_gradients: bool) -> RankResult:
    """Train on this rank; the process group is initialised. `keep_gradients`: the first step's are
    brought home, unscaled."""
    mesh = Mesh(config.parallel)
    engine = make_engine(config, engine_name, mesh)
    loader = loader_here(config, mesh)
    counted_step, clock = min(1, config.steps - 1), StepClock(mesh.device)
    result = RankResult(RankReport(mesh.rank, mesh.coords), [], {}, _device_name(mesh.device))
    steps = iter(loader)
    for step in range(config.steps):
        clock.begin()
        batch = next(steps)
        clock.data_here()
        mesh.ledger.clear()
        if step == 0 and keep_gradients:
            engine.forward_backward(batch)
            result.gradients = engine.fragments()
            mesh.ledger.clear()
        scale = engine.scaler.scale if engine.scaler else None
        if step == counted_step:
            loss, applied, memory, traffic, result.flops = counted_step_of(engine, batch, mesh)
        else:
            loss, applied = engine.forward_backward(batch), engine.update()
        clock.end(mesh.ledger, keep=step >= 2)
        result.loss_sums.append(loss)
        if scale is not None:
            result.loss_scale.append((scale, not applied))
        emit((step, loss))
    steps.close()
    time = clock.summary()
    if engine_name != "ours":  # the library's waiting cannot be told from its computing
        time = time | dict.fromkeys(("compute", "communication", "bubble", "hidden"))
    result.report = RankReport(mesh.rank, mesh.coords, memory, traffic, time)
    return result


def counted_step_of(
    engine: Engine, batch: StepBatch, mesh: Mesh
) -> tuple[float, bool, dict[str, Any], tuple[Traffic, ...], dict[str, int]]:
    """One step with bytes, traffic and FLOPs counted: (loss sum, applied, memory, traffic,
    flops)."""
    saved, meter = SavedActivations(engine.model, engine.weights()), FlopMeter()
    live = (
        LiveStorages(
            engine.held, saved, (x for micro in batch.micro_batches for x in micro), engine.on_host
        )
        if engine.shows_all_tensors
        else None
    )
    on_cuda = mesh.device.type == "cuda"

    def observe(what: str, tensor: Tensor, held: bool) -> None:
        saved.observe(what, tensor, held)
        if live is not None:
            live.observe(what, tensor, held)

    mesh.ledger.observer = observe
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(mesh.device)
    try:
        with ExitStack() as instruments:
            for instrument in (saved, meter, *engine.counters(), *([live] if live else [])):
                instruments.enter_context(instrument)
            loss, passes = engine.forward_backward(batch), meter.so_far()
            applied = engine.update()
    finally:
        mesh.ledger.observer = None
    memory = {"activations": saved.peak, "weight_copies": saved.copies_peak, "peak": None}
    memory |= held_bytes(engine.held())  # an engine may say that it hides one
    if live is not None:
        memory |= {
            "peak": torch.cuda.max_memory_allocated(mesh.device) if on_cuda else live.peak,
            "at_peak": live.at_peak(),
        }
    for what, most in saved.peaks.items():
        memory[what] = memory.get(what, 0) + most
    traffic = summarize(mesh.ledger.calls, mesh.sizes)
    # an optimizer's own products (Muon's) are none of the model's
    flops = passes | {"update": meter.so_far()["hardware"] - passes["hardware"]}
    return loss, applied, memory, traffic, flops


def _device_name(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"cpu, {torch.get_num_threads()} threads a rank, {dist.get_backend()}"
    )
