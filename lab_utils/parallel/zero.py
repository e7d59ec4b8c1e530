"""ZeRO: data parallelism whose ranks no longer all hold the same (Rajbhandari et al. 2020, "ZeRO",
section 5).

Each unit's parameters lie end to end in one flat buffer, cut into N equal shards; rank r updates
shard r.
Stage 1: optimizer states for the own shard only; gradients are summed to their owner, updated
weights gathered.
Stage 2: also gradients: each unit's leave as soon as they exist, and only the own shard's sum is
kept.
Stage 3: also parameters: a unit is gathered before it is used, forward and backward, and freed
after.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..layout.units import Unit
from .comm import Axis, Pending
from .gradient_sync import GradientSync
from .owned import Owned, Piece
from .stage import Part


class FlatUnit:
    """One unit's buffers on this rank. `parameters` are views of `whole`; `shard` is what this rank
    updates."""

    def __init__(
        self,
        unit: Unit,
        shapes: Mapping[str, tuple[int, ...]],
        axis: Axis,
        stage: int,
        device: torch.device,
        dtype: torch.dtype,
        gathered_dtype: torch.dtype,
    ) -> None:
        self.unit, self.axis, self.stage, self.dtype, self.device = unit, axis, stage, dtype, device
        self.whole = torch.zeros(unit.numel, dtype=gathered_dtype, device=device)
        self.views = {
            part.name: self.whole[part.offset : part.offset + part.numel].view(shapes[part.name])
            for part in unit.parts
        }
        self.parameters = {name: nn.Parameter(view.data) for name, view in self.views.items()}
        self.shard, self.resident, self.arriving = self._mine(self.whole), True, Pending()
        if stage == 3:
            self.shard = torch.zeros(unit.numel // axis.size, dtype=dtype, device=device)
            self._drop()
        # stage 1: of the whole unit, kept; else only while it is being filled
        self.gradient: Tensor | None = None
        self.shard_gradient: Tensor | None = None
        self.missing = set(self.parameters)

    def _mine(self, flat: Tensor) -> Tensor:
        return flat.chunk(self.axis.size)[self.axis.rank]

    def fill(self, name: str, values: Tensor) -> None:
        """Set one parameter's first values; in stage 3 only what falls into the shard is kept."""
        if self.stage < 3:
            self.views[name].copy_(values)
            return
        for parameter, first, numel, offset in self.unit.pieces(self.axis.size, self.axis.rank):
            if parameter == name:
                self.shard[first : first + numel] = values.reshape(-1)[offset : offset + numel]

    # -- weights -----------------------------------------------------------------------------------

    def gather(self) -> None:
        """Stage 3: begin to make the whole unit present; `arrived()` ends it."""
        if self.resident:
            return
        self.whole.untyped_storage().resize_(self.unit.numel * self.whole.element_size())
        for name, parameter in self.parameters.items():
            parameter.data = self.views[name]
        self.axis.ledger.hold("gathered", self.whole)
        self._mine(self.whole).copy_(self.shard)
        self.arriving = self.axis.all_gather(self.whole, purpose="parameter", label=self.unit.name)
        self.resident = True

    def arrived(self) -> None:
        """Return when every weight of the unit may be used."""
        self.arriving.wait()

    def free(self) -> None:
        """Stage 3: drop the gathered weights. Autograd keeps its tensors, but their storage is
        empty until the next gather; a parameter has no elements meanwhile: outside its window a
        product with it fails, and a sum over it is 0."""
        if self.stage == 3 and self.resident:
            self.arriving.wait()
            self.axis.ledger.release("gathered", self.whole)
            self._drop()

    def _drop(self) -> None:
        for parameter in self.parameters.values():
            parameter.data = parameter.data.new_empty(0)
        self.whole.untyped_storage().resize_(0)
        self.resident = False

    # -- gradients ---------------------------------------------------------------------------------

    def take_gradient(self, name: str, parameter: nn.Parameter) -> None:
        """Move a gradient that autograd has just made into the flat buffer."""
        if self.gradient is None:
            self.gradient = torch.zeros(self.unit.numel, dtype=self.dtype, device=self.device)
            if self.stage > 1:
                self.axis.ledger.hold("buckets", self.gradient)
        start, shape = self.views[name].storage_offset(), self.views[name].shape
        view = self.gradient[start : start + shape.numel()].view(shape)
        # took no part in this rank's loss: its share of the sum is 0
        if parameter.grad is None:
            view.zero_()
        elif parameter.grad.data_ptr() != view.data_ptr():
            view.copy_(parameter.grad)
        parameter.grad = view if self.stage == 1 else None

    def reduce(self) -> Pending:
        """Begin to sum the flat gradient to its owners; `collect()` ends it."""
        self.missing = set(self.parameters)
        self._leaving = self.gradient
        # the next micro-batch may fill a new one while this one travels
        if self.stage > 1:
            self.gradient = None
        self._summed, pending = self.axis.reduce_scatter(
            self._leaving, purpose="gradient", label=self.unit.name
        )
        return pending

    def collect(self) -> None:
        """The sum has arrived: stage 1 leaves it where it is, stages 2 and 3 add it to the shard
        and free the rest."""
        if self.stage == 1:
            self.shard_gradient = self._summed
            return
        if self.shard_gradient is None:
            self.shard_gradient = self._summed.clone()
        else:
            self.shard_gradient += self._summed
        self.axis.ledger.release("buckets", self._leaving)
        self._leaving = self._summed = None


class ShardedSync(GradientSync):
    """ZeRO stages 1, 2 and 3 behind the steps of every GradientSync, over `units` that together
    hold all of `model`."""

    sharded = True

    def __init__(self, model: nn.Module, axis: Axis, units: list[FlatUnit]) -> None:
        super().__init__(model, axis)
        self.units, self.unit_of = units, {name: unit for unit in units for name in unit.parameters}
        self.stage = units[0].stage
        self.under_way: tuple[FlatUnit, Pending] | None = None
        self._watch_gradients()

    def zero_grad(self) -> None:
        super().zero_grad()
        for unit in self.units:
            unit.shard_gradient, unit.missing = None, set(unit.parameters)

    def _gradient_exists(self, name: str, parameter: nn.Parameter) -> None:
        unit = self.unit_of[name]
        unit.take_gradient(name, parameter)
        # stage 1 keeps the whole gradient, so it can wait for the last micro-batch
        if self.stage == 1 and not self.enabled:
            return
        self.axis.ledger.mark("gradient", name)
        unit.missing.discard(name)
        if not unit.missing:
            unit.free()
            self._reduce(unit)

    def _reduce(self, unit: FlatUnit) -> None:
        # one sum under way at a time: the next unit's backward pass runs meanwhile
        self._collect()
        self.under_way = unit, unit.reduce()

    def _collect(self) -> None:
        if self.under_way is not None:
            unit, pending = self.under_way
            pending.wait()
            unit.collect()
            self.under_way = None

    def finish(self) -> None:
        for unit in self.units:
            begun = len(unit.missing) < len(unit.parameters)
            never_left = unit.shard_gradient is None and not (
                self.under_way and self.under_way[0] is unit
            )
            if begun or never_left:
                for name in sorted(unit.missing):
                    unit.take_gradient(name, unit.parameters[name])
                self._reduce(unit)
        self._collect()

    def publish(self) -> None:
        """After the optimizer step: every rank has every updated weight again. In stage 3 nobody
        needs them yet."""
        if self.stage < 3:
            for pending in [
                unit.axis.all_gather(unit.whole, purpose="parameter", label=unit.unit.name)
                for unit in self.units
            ]:
                pending.wait()

    def owned(self) -> list[Owned]:
        n, r = self.axis.size, self.axis.rank
        return [
            Owned(
                u.unit.name,
                u.shard,
                lambda u=u: u.shard_gradient,
                tuple(Piece(*piece) for piece in u.unit.pieces(n, r)),
            )
            for u in self.units
        ]

    def held(self) -> dict[str, list[Tensor]]:
        gradients = [g for u in self.units for g in (u.gradient, u.shard_gradient) if g is not None]
        return {
            "parameters": [u.shard if self.stage == 3 else u.whole for u in self.units],
            "gradients": gradients,
            "buckets": [],
        }

    def weights(self) -> list[Tensor]:
        return [unit.whole for unit in self.units]

    def around(self, parts: list[Part]) -> list[Part]:
        """Stage 3: the same parts, each gathering its weights first, freeing them after, and again
        in the backward pass.

        The next part's weights travel while this one computes.
        """
        if self.stage < 3:
            return parts
        needs = [self._units_of(part) for part in parts]
        return [Part(part.name, self._guarded(part, needs, i)) for i, part in enumerate(parts)]

    def _guarded(self, part: Part, needs: list[list[FlatUnit]], i: int) -> Any:
        def present(then: int) -> None:
            for unit in needs[i]:
                unit.gather()
            for unit in needs[i]:
                unit.arrived()
            for unit in needs[then] if 0 <= then < len(needs) else ():
                unit.gather()

        def run(x: Tensor | None, micro: Any) -> Tensor:
            present(then=i + 1)
            y = part.run(x, micro)
            for unit in needs[i]:
                unit.free()
            return _BeforeBackward.apply(y, lambda: present(then=i - 1))

        return run

    def _units_of(self, part: Part) -> list[FlatUnit]:
        first = {
            "embed": ("token_embedding", "position_embedding"),
            "predict": ("final_norm", "head"),
        }.get(part.name, (f"{part.name}.",))
        if part.name == "predict" and getattr(getattr(self.model, "config", None), "tied", False):
            first += ("token_embedding",)
        return [
            unit for unit in self.units if any(name.startswith(first) for name in unit.parameters)
        ]


class _BeforeBackward(torch.autograd.Function):
    """The identity; calls `callback` when the backward pass arrives here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, callback: Any) -> Tensor:
        ctx.callback = callback
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.callback()
        return gradient, None
