"""The update: gradients judged, clipped by the norm of the whole model, applied to what this rank
owns.

An optimizer shard is one tensor to a rule that treats every element alike, and cut into runs for
the others (layout/optimizer_runs.py). What a rule must know of other ranks' parts is brought by
whole_matrices.py (Muon) and tensor_sums.py (Adafactor).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..config.lr_schedule import learning_rate
from ..layout.optimizer_runs import Run, decays, optimizer_runs, rules
from ..layout.placement import placements
from ..layout.units import Unit, zero_units
from ..parallel.mesh import Mesh
from ..parallel.optimizer_shard import OptimizerShard, sum_of_squares
from ..parallel.parallelize import Layout, local_values
from .loss_scaler import LossScaler
from .optimizer import decay, make_optimizer, set_rate
from .tensor_sums import TensorSums, cut_between_ranks, part_of_run
from .whole_matrices import WholeMatrices

if TYPE_CHECKING:
    from collections.abc import Iterator


class Update:
    """Applies optimizer steps. Where weights are not fp32, or live elsewhere than the
    optimizer (`--offload`), it keeps fp32 master weights and writes the rounded result back."""

    def __init__(
        self,
        shards: list[OptimizerShard],
        layout: Layout,
        config: TrainConfig,
        mesh: Mesh,
        scaler: LossScaler | None,
    ) -> None:
        self.shards, self.layout, self.config, self.mesh, self.scaler = (
            shards,
            layout,
            config,
            mesh,
            scaler,
        )
        self.offload = config.parallel.offload
        self.separate = self.offload or config.precision == "bf16-pure"
        # where nothing is kept apart they are the model's own memory: the optimizer writes there
        self.weights = [self._master(o) if self.separate else o.weight.detach() for o in shards]
        self.runs = [
            optimizer_runs(config, o.pieces, weight.numel())
            for o, weight in zip(shards, self.weights, strict=True)
        ]
        self.parameters = [
            [nn.Parameter(_part(weight, run)) for run in runs]
            for weight, runs in zip(self.weights, self.runs, strict=True)
        ]
        self.optimizers = list(self._optimizers())
        self.updates = 0  # that were applied; a skipped step is none
        self.on_host = False  # whether what comes into being now does so in the host's memory
        self.rate = partial(learning_rate, config)  # of an update, by its number

    def _optimizers(self) -> Iterator[torch.optim.Optimizer]:
        runs = [run for of_shard in self.runs for run in of_shard]
        parameters = [parameter for of_shard in self.parameters for parameter in of_shard]
        # every rank makes the same ones, for they may talk to each other
        for rule in rules(self.config.optimizer):
            here = [i for i, run in enumerate(runs) if run.rule == rule]
            scales = sorted({runs[i].scale for i in here}) or [1.0]
            yield make_optimizer(
                [
                    {"params": [parameters[i] for i in here if runs[i].scale == s], "scale": s}
                    for s in scales
                ],
                self.config,
                rule,
                **self._given(rule, [runs[i] for i in here]),
            )

    def _given(self, rule: str, runs: list[Run]) -> dict[str, Any]:
        """What a rule needs besides weights and gradients."""
        config, mesh, here = self.config, self.mesh, self.layout.placements
        if rule == "adam8bit":
            return cut_between_ranks(runs, here, self._units(), mesh.data)
        if rule == "adafactor":
            sums = TensorSums(mesh, here, [run.parameter for run in runs], self.layout.sync.sharded)
            return {"parts": [part_of_run(run, here) for run in runs], "add_up": sums}
        if rule == "muon":
            p, rank = config.parallel, mesh["pp"].rank
            return {
                "directions": WholeMatrices(
                    mesh,
                    [placements(config.model, p, rank, tp) for tp in range(p.tp)],
                    self._units(),
                    [run.parameter for run in runs],
                    torch.float32 if config.precision == "fp32" else torch.bfloat16,
                )
            }
        return {}

    def _units(self) -> tuple[Unit, ...]:
        """ZeRO's, or none."""
        config, mesh = self.config, self.mesh
        return zero_units(config, mesh["pp"].rank, mesh["tp"].rank) if config.parallel.zero else ()

    def _master(self, o: OptimizerShard) -> Tensor:
        """fp32, drawn anew, because the weights that the model holds may be rounded already."""
        master = torch.zeros(o.weight.shape, dtype=torch.float32)
        for piece in o.pieces:
            values = local_values(self.layout.placements[piece.parameter], self.config).reshape(-1)
            master.view(-1)[piece.first : piece.first + piece.numel] = values[
                piece.offset : piece.offset + piece.numel
            ]
        return master if self.offload else master.to(self.mesh.device)

    def apply(self) -> bool:
        """One optimizer step. False if the gradients overflowed on any rank: then nothing is
        applied anywhere."""
        factor = 1.0 / self.scaler.scale if self.scaler else 1.0
        if self.scaler or self.config.clip > 0:
            norm = (
                sum_of_squares(
                    self.shards, self.layout.placements, self.mesh, self.layout.sync.sharded
                )
                .sqrt()
                .item()
                * factor
            )
            if self.scaler:
                overflow = not norm < float("inf")  # NaN too
                self.scaler.update(overflow)
                if overflow:
                    return False
            if self.config.clip > 0:
                factor *= min(1.0, self.config.clip / (norm + 1e-6))
        self.on_host = self.offload
        self._apply(factor)
        self.on_host = False
        self.updates += 1
        return True

    def _apply(self, factor: float) -> None:
        gradients = [
            o.gradient().to(weight.device, weight.dtype)
            for weight, o in zip(self.weights, self.shards, strict=True)
        ]
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        rate = self.rate(self.updates)
        decay(self._decayed(self.weights), self._decayed(gradients), self.config, rate)
        for gradient, runs, parameters in zip(gradients, self.runs, self.parameters, strict=True):
            for run, parameter in zip(runs, parameters, strict=True):
                parameter.grad = _part(gradient, run)
        for optimizer in self.optimizers:
            set_rate(optimizer, rate)
            optimizer.step()
        if self.separate:
            with torch.no_grad():
                for weight, o in zip(self.weights, self.shards, strict=True):
                    o.weight.copy_(weight)
        for parameter in (one for of_shard in self.parameters for one in of_shard):
            parameter.grad = None

    def _decayed(self, tensors: list[Tensor]) -> list[Tensor]:
        """The parts, flat, of what weight decay is for."""
        return [
            tensor.view(-1)[piece.first : piece.first + piece.numel]
            for tensor, o in zip(tensors, self.shards, strict=True)
            for piece in o.pieces
            if decays(piece.parameter)
        ]

    def _tensors(self) -> Iterator[Tensor]:
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                yield from (x for x in state.values() if isinstance(x, Tensor))
        if self.separate:
            yield from self.weights

    def states(self) -> list[Tensor]:
        """Optimizer states and master weights beside the model."""
        return [] if self.offload else list(self._tensors())

    def offloaded(self) -> list[Tensor]:
        """The same where they live in the host's memory."""
        return list(self._tensors()) if self.offload else []


def _part(tensor: Tensor, run: Run) -> Tensor:
    """A run of a shard's weights or gradients; the shard itself where that is all of it."""
    if run.numel == tensor.numel():
        return tensor
    return tensor.view(-1)[run.first : run.first + run.numel]
