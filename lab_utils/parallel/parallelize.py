"""`parallelize(model, config, mesh)`: the strategies of a configuration, applied to an ordinary
model in visible order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..first_values import first_values
from ..layout.placement import Placement, placements
from ..layout.schedule import make_schedule, splits_backward
from ..layout.units import zero_units
from .context import context_parallel
from .data_parallel import data_parallel
from .flat_unit import FlatUnit, install
from .float8 import float8
from .gradient_sync import GradientSync
from .mesh import Mesh
from .pipeline import Boundary, Pipeline
from .stage import keep_stages, stage_parts
from .tensor import Region, tensor_parallel_gpt
from .weight_grad_store import WeightGradStore
from .zero import ShardedSync

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}


@dataclass
class Layout:
    """A rank's part of the work: its `model`, what keeps gradients in step, and the order of
    forward and backward passes."""

    model: nn.Module
    sync: GradientSync
    pipeline: Pipeline
    placements: Mapping[str, Placement]


def parallelize(model: nn.Module, config: TrainConfig, mesh: Mesh) -> Layout:
    """Make `model` (on the meta device; it gets its weights here) take part in `config`'s
    layout."""
    p, pp, tp = config.parallel, mesh["pp"], mesh["tp"]
    here = placements(config.model, p, pp.rank, tp.rank)
    schedule = make_schedule(p.schedule, p.pp, config.micro_batches, p.virtual_stages)
    weight_grads = WeightGradStore(mesh.ledger) if splits_backward(schedule) else None

    keep_stages(model, config, pp.rank)
    context_parallel(model, mesh["cp"], p.cp_kind)
    tensor_parallel_gpt(model, config.model, Region(tp, p.sequence_parallel, weight_grads), here)
    if config.precision == "fp8":
        float8(model.blocks)
    sync = _zero(model, config, mesh, here) if p.zero else _replicas(model, config, mesh, here)

    stages = {
        number: sync.wrap(parts) for number, parts in stage_parts(model, config, pp.rank).items()
    }
    boundary = Boundary(_boundary_shape(config), parameter_dtype(config), mesh.device)
    autocast = (
        partial(torch.autocast, mesh.device.type, AUTOCAST[config.precision])
        if config.precision in AUTOCAST
        else nullcontext
    )
    return Layout(
        model,
        sync,
        Pipeline(
            stages,
            schedule,
            pp,
            mesh.ledger,
            boundary=boundary,
            weight_grads=weight_grads,
            autocast=autocast,
        ),
        here,
    )


def parameter_dtype(config: TrainConfig) -> torch.dtype:
    """The format that weights and gradients are held in; autocast leaves them in fp32."""
    return torch.bfloat16 if config.precision == "bf16-pure" else torch.float32


def local_values(place: Placement, config: TrainConfig) -> Tensor:
    """This rank's part of a parameter's first values (fp32, CPU); the whole is drawn, so that every
    layout starts alike."""
    whole = first_values(place.name, place.shape, config.model, config.seed, config.init)
    return whole if place.dim is None else whole.narrow(place.dim, place.start, place.length)


def _replicas(
    model: nn.Module, config: TrainConfig, mesh: Mesh, here: Mapping[str, Placement]
) -> GradientSync:
    parameters = {
        name: nn.Parameter(
            torch.empty(place.local_shape, dtype=parameter_dtype(config), device=mesh.device)
        )
        for name, place in here.items()
    }
    install(model, parameters)
    for name, parameter in parameters.items():
        with torch.no_grad():
            parameter.copy_(local_values(here[name], config))
    return data_parallel(
        model,
        mesh.data,
        gradient_sync=config.parallel.gradient_sync,
        bucket_bytes=config.parallel.bucket_bytes,
        broadcast=False,  # every rank has drawn the same values
    )


def _zero(
    model: nn.Module, config: TrainConfig, mesh: Mesh, here: Mapping[str, Placement]
) -> GradientSync:
    dtype, shapes = (
        parameter_dtype(config),
        {name: place.local_shape for name, place in here.items()},
    )
    units = [
        FlatUnit(
            unit,
            shapes,
            mesh.data,
            config.parallel.zero,
            mesh.device,
            dtype,
            AUTOCAST[config.precision] if unit.low_precision else dtype,
        )
        for unit in zero_units(config, mesh["pp"].rank, mesh["tp"].rank)
    ]
    install(
        model, {name: parameter for unit in units for name, parameter in unit.parameters.items()}
    )
    for unit in units:
        for name in unit.parameters:
            unit.fill(name, local_values(here[name], config))
    return ShardedSync(model, mesh.data, units)


def _boundary_shape(config: TrainConfig) -> tuple[int, int, int]:
    p = config.parallel
    return (
        config.micro_batch,
        config.rank_seq // (p.tp if p.sequence_parallel else 1),
        config.model.hidden,
    )
