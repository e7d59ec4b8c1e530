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

from typing import Any

import torch
from torch import Tensor, nn

from .comm import Axis, Pending
from .flat_unit import FlatUnit
from .gradient_sync import GradientSync
from .owned import Owned, Piece
from .stage import Part


class ShardedSync(GradientSync):
    """ZeRO stages 1, 2 and 3 behind the steps of every GradientSync, over `units` that together
    hold all of `model`."""

    sharded = True

    def __init__(self, model: nn.Module, axis: Axis, units: list[FlatUnit]) -> None:
        super().__init__(model, axis)
        self.units, self.unit_of = units, {name: unit for unit in units for name in unit.parameters}
        self.stage = next((unit.stage for unit in units), 0)  # 0: nothing is trained
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
            return BeforeBackward.apply(y, lambda: present(then=i - 1))

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
