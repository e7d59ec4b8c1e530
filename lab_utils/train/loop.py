"""What every rank does from its first to its last step, with the instruments reading along.

Step 0 warms up, step 1 is the one whose bytes, traffic and FLOPs are counted (optimizer states exist by then, and the
instruments slow it), steps from 2 on are timed.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from ..config import TrainConfig
from ..data.loader import Loader, StepBatch
from ..launch import emit
from ..measure.flops import FlopMeter
from ..measure.memory import SavedActivations, model_state_bytes
from ..measure.time import StepClock
from ..measure.traffic import OutsideCounter, summarize
from ..model import GPT
from ..parallel.data_parallel import GradientSync
from ..parallel.mesh import AXES, Mesh
from ..parallel.parallelize import parallelize
from ..report import RankReport
from .optimizer import make_optimizer
from .step import forward_backward, train_step


@dataclass
class RankResult:
    """What a rank brings home: its part of the report, its loss sums per step, its FLOPs in one step."""

    report: RankReport
    loss_sums: list[float]
    flops: dict[str, int]
    device: str
    gradients: dict[str, Any] = field(default_factory=dict)


def run_rank(config: TrainConfig, engine: str, keep_gradients: bool) -> RankResult:
    """Train on this rank; the process group is initialised. `keep_gradients`: rank 0 brings the first step's home."""
    mesh = Mesh(config.parallel)
    sync = build(config, engine, mesh)
    optimizer = make_optimizer(sync.model, config)
    loader = Loader(config, mesh["dp"].rank, device=mesh.device)
    counted_step, clock = min(1, config.steps - 1), StepClock(mesh.device)
    loss_sums, gradients = [], {}
    steps = iter(loader)
    for step in range(config.steps):
        clock.begin()
        batch = next(steps)
        clock.data_here()
        mesh.ledger.clear()
        if step == 0 and keep_gradients:
            taken = first_gradients(sync, batch)      # by every rank: they are summed over all
            gradients = taken if mesh.rank == 0 else {}
            mesh.ledger.clear()
        if step == counted_step:
            loss, memory, traffic, flops = counted(sync, optimizer, batch, config, mesh, engine)
        else:
            loss = train_step(sync, optimizer, batch, config.clip)
        clock.end(mesh.ledger, keep=step >= 2)
        loss_sums.append(loss)
        emit((step, loss))
    steps.close()
    time = clock.summary()
    if engine != "ours":        # the library's waiting cannot be told from its computing
        time = time | dict.fromkeys(("compute", "communication", "hidden"))
    report = RankReport(mesh.rank, mesh.coords, memory, traffic, time)
    return RankResult(report, loss_sums, flops, _device_name(mesh.device), gradients)


def build(config: TrainConfig, engine: str, mesh: Mesh) -> GradientSync:
    """The model on this rank's device, taking part in the layout, by our engine or by torch's."""
    model = GPT(config.model, config.seed).to(mesh.device)
    if engine == "torch":
        from ..engines.torch import parallelize as torch_parallelize

        return torch_parallelize(model, config, mesh)
    return parallelize(model, config, mesh)


def counted(
    sync: GradientSync, optimizer: torch.optim.Optimizer, batch: StepBatch, config: TrainConfig, mesh: Mesh, engine: str
) -> tuple[float, dict[str, Any], tuple[Any, ...], dict[str, int]]:
    """One step with bytes, traffic and FLOPs counted: (loss sum, memory, traffic, flops)."""
    saved, meter = SavedActivations(sync.model), FlopMeter()
    with ExitStack() as instruments:
        instruments.enter_context(saved)
        instruments.enter_context(meter)
        if engine != "ours":
            instruments.enter_context(OutsideCounter(mesh.ledger, mesh["dp"]))
        loss = train_step(sync, optimizer, batch, config.clip)
    memory = model_state_bytes(sync.model, optimizer, sync.extra_buffers()) | {"activations": saved.peak, "peak": None}
    if engine != "ours":
        memory["buckets"] = None        # held inside the library, out of sight
    traffic = summarize(mesh.ledger.calls, {name: mesh[name].size for name in AXES})
    return loss, memory, traffic, {"model": meter.model, "hardware": meter.hardware}


def first_gradients(sync: GradientSync, batch: StepBatch) -> dict[str, Any]:
    """The gradients of `batch`, the same on every rank, as NumPy arrays by parameter name; nothing is applied."""
    forward_backward(sync, batch)
    sync.finish()
    return {name: parameter.grad.detach().cpu().numpy().copy() for name, parameter in sync.parameters.items()}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"cpu, {torch.get_num_threads()} threads a rank, {dist.get_backend()}"
