"""ZeRO: data parallelism whose ranks no longer all hold the same (Rajbhandari et al. 2020, "ZeRO",
section 5).

Each unit's parameters lie end to end in one flat buffer, cut into N equal shards; rank r updates
shard r.
Stage 1: optimizer states for the own shard only; gradients are summed to their owner, updated
weights gathered.
Stage 2: also gradients: each unit's leave as soon as they exist, and only the own shard's sum is
kept.
Stage 3: also parameters: a unit is unsharded before it is used, forward and backward, and resharded
after.

In which order is written in layout/zero_events.py; here its events are carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..layout.units import units_of_part
from ..layout.zero_events import Do, Event, ReduceOrder, after_part, after_update, before_part
from .comm import Axis, Pending
from .flat_unit import FlatUnit
from .gradient_sync import GradientSync
from .optimizer_shard import OptimizerShard, Piece
from .stage import Part


class ShardedSync(GradientSync):
    """ZeRO stages 1, 2 and 3 behind the steps of every GradientSync, over `units` that together
    hold all of `model` that is trained."""

    sharded = True

    def __init__(self, model: nn.Module, axis: Axis, units: list[FlatUnit]) -> None:
        super().__init__(model, axis)
        self.units, self.unit = units, {unit.name: unit for unit in units}
        self.stage = next((unit.stage for unit in units), 0)  # 0: nothing is trained
        self.order = ReduceOrder([unit.unit for unit in units], self.stage)
        self.pending: dict[str, Pending] = {}  # by unit
        self._watch_gradients()

    def zero_grad(self) -> None:
        super().zero_grad()
        self.order.begin_step()
        for unit in self.units:
            unit.shard_gradient = None

    def _gradient_exists(self, name: str, parameter: nn.Parameter) -> None:
        """Called by autograd, by a hook on the parameter, once for each micro-batch."""
        self.unit[self.order.unit_of[name]].take_gradient(name, parameter)
        self._carry_out(self.order.gradient(name, last_micro_batch=self.enabled))

    def finish(self) -> None:
        self._carry_out(self.order.finish())

    def gather_parameters(self) -> None:
        """After the optimizer step: every rank has every updated weight again. In stage 3 nobody
        needs them yet."""
        self._carry_out(after_update(self.order.units, self.stage))

    def _carry_out(self, events: Iterable[Event]) -> None:
        for do, name in events:
            match do:
                case Do.UNSHARD:
                    self.unit[name].unshard()
                case Do.WAIT_FOR_UNSHARD:
                    self.unit[name].wait_for_unshard()
                case Do.RESHARD:
                    self.unit[name].reshard()
                case Do.GRADIENT:  # it is in its buffer already; this is for the trace
                    self.axis.ledger.mark("gradient", name)
                case Do.NO_GRADIENT:
                    unit = self.unit[self.order.unit_of[name]]
                    unit.take_gradient(name, unit.parameters[name])
                case Do.REDUCE:
                    self.pending[name] = self.unit[name].reduce()
                case Do.COLLECT:
                    self._collect(name)
                case Do.GATHER:
                    self.pending[name] = self.unit[name].gather_updated()
                case Do.WAIT_FOR_GATHER:
                    self.pending.pop(name).wait()

    def _collect(self, name: str) -> None:
        self.pending.pop(name).wait()
        self.unit[name].collect()

    def optimizer_shards(self) -> list[OptimizerShard]:
        """This rank's shard of each unit: the optimizer reads `shard_gradient` and writes into
        `shard`, the memory that is gathered from."""
        return [
            OptimizerShard(
                u.name,
                u.shard,
                lambda u=u: u.shard_gradient,
                tuple(Piece(*piece) for piece in u.unit.pieces(u.axis.size, u.axis.rank)),
            )
            for u in self.units
        ]

    def wrap(self, parts: list[Part]) -> list[Part]:
        """Stage 3: the same parts, each with its weights unsharded first and resharded after. In
        the backward pass they are unsharded again, and resharded when the unit's last gradient
        exists (`ReduceOrder.gradient`)."""
        if self.stage < 3:
            return parts
        needs = [self._units_of(part) for part in parts]
        return [Part(part.name, self._wrapped(part, needs, i)) for i, part in enumerate(parts)]

    def _wrapped(
        self, part: Part, needs: list[list[str]], i: int
    ) -> Callable[[Tensor | None, Any], Tensor]:
        following = needs[i + 1] if i + 1 < len(needs) else ()
        preceding = needs[i - 1] if i > 0 else ()

        def run(x: Tensor | None, micro: Any) -> Tensor:
            self._carry_out(before_part(needs[i], following))
            y = part.run(x, micro)
            self._carry_out(after_part(needs[i]))
            return BeforeBackward.apply(
                y, lambda: self._carry_out(before_part(needs[i], preceding))
            )

        return run

    def _units_of(self, part: Part) -> list[str]:
        tied = getattr(getattr(self.model, "config", None), "tied", False)
        units = units_of_part(part.name, [unit.unit for unit in self.units], tied)
        return [unit.name for unit in units]


class BeforeBackward(torch.autograd.Function):
    """The identity; calls `callback` when the backward pass arrives here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, callback: Any) -> Tensor:
        ctx.callback = callback
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.callback()
        return gradient, None
