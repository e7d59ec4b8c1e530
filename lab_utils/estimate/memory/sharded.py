"""ZeRO's stages without numbers: parallel/zero.py, line by line, with sync.py's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...config import TrainConfig
from ...layout.units import Unit
from ..program.conventions import Collectives
from ..program.live import Storage, Value
from ..program.model import Program
from ..program.tape import Leaf
from .sync import Owned


class _Flat:
    """One unit: its buffers on this rank, as parallel.zero.FlatUnit has them."""

    def __init__(self, unit: Unit, sync: Sharded, held: int, gathered: int) -> None:
        self.unit, self.sync, self.torch, self.width, self.gathered_width = (
            unit,
            sync,
            sync.torch,
            held,
            gathered,
        )
        stage, shard = sync.stage, unit.numel // sync.ranks
        convention = sync.torch.convention
        self.gradient_width = grown = convention.gradient_width(held)
        self.in_place = convention.main_gradients or sync.ranks == 1
        self.waits = convention.collectives is Collectives.NCCL
        self.whole = Storage(
            self.torch,
            0 if stage == 3 else unit.numel * held,
            "gathered" if stage == 3 else "parameters",
        )
        self.shard = Storage(self.torch, shard * held, "parameters") if stage == 3 else None
        self.gradient = Storage(self.torch, unit.numel * grown, "gradients") if stage == 1 else None
        self.shard_gradient = Value(
            self.gradient or Storage(self.torch, shard * grown, "gradients"), shard, grown
        )
        self.resident, self.arriving = stage < 3, None
        if stage == 3 and not self.waits:
            self.arriving = self._shard_copy(gathered)
        self.names = {part.name for part in unit.parts}
        self.missing = set(self.names)

    def _shard_copy(self, width: int) -> Value | None:
        """What an all-gather holds for as long as it is remembered: its own copy of the shard."""
        return None if self.in_place else self.torch.new(self.unit.numel // self.sync.ranks, width)

    def gather(self) -> None:
        if not self.resident:
            self.whole.resize(self.unit.numel * self.gathered_width)
            self.arriving, self.resident = self._shard_copy(self.gathered_width), True

    def arrived(self) -> None:
        if self.waits:
            self.arriving = None

    def free(self) -> None:
        if self.sync.stage == 3 and self.resident:
            self.whole.resize(0)
            self.resident = False

    def take(self, leaf: Leaf) -> None:
        if self.gradient is None:
            self.gradient = Storage(self.torch, self.unit.numel * self.gradient_width, "buckets")
        leaf.grad = (
            Value(self.gradient, leaf.value.numel, self.gradient_width)
            if self.sync.stage == 1
            else None
        )

    def reduce(self) -> Value | None:
        """Room for what the ring brings in, or on NCCL a copy of what goes in."""
        self.missing, self.leaving = set(self.names), self.gradient
        if self.sync.stage > 1:
            self.gradient = None
        if self.waits and not self.in_place:
            return self.torch.new(self.unit.numel, self.gradient_width)
        return self._shard_copy(self.gradient_width)

    def collect(self) -> None:
        if self.sync.stage == 1:
            self.shard_gradient = Value(
                self.leaving, self.unit.numel // self.sync.ranks, self.gradient_width
            )
        elif self.shard_gradient is None:
            self.shard_gradient = self.torch.new(
                self.unit.numel // self.sync.ranks, self.gradient_width
            )
            self.shard_gradient.storage.become("gradients")
        self.leaving = None


class Sharded:
    """ZeRO stages 1, 2 and 3."""

    def __init__(self, program: Program, config: TrainConfig, units: Iterable[Unit]) -> None:
        self.program, self.torch, self.stage, self.ranks = (
            program,
            program.torch,
            config.parallel.zero,
            config.parallel.replicas,
        )
        self.tied = config.model.tied
        held = 2 if config.precision == "bf16-pure" else 4
        self.units = [_Flat(unit, self, held, 2 if unit.low_precision else held) for unit in units]
        self.unit_of = {name: flat for flat in self.units for name in flat.names}
        for name, flat in self.unit_of.items():
            leaf = program.leaves[name]
            leaf.value = Value(flat.whole, leaf.value.numel, flat.gathered_width, leaf)
            leaf.hook = self._gradient_exists
            leaf.grad = (
                Value(flat.gradient, leaf.value.numel, flat.gradient_width)
                if self.stage == 1
                else None
            )
        self.enabled, self.under_way = True, None
        self.before_reduce: Callable[[], None] | None = None

    def zero_grad(self) -> None:
        for leaf in self.program.leaves.values():
            leaf.grad = None
        for flat in self.units:
            flat.shard_gradient, flat.missing = None, set(flat.names)

    def _gradient_exists(self, leaf: Leaf) -> None:
        flat = self.unit_of[leaf.name]
        flat.take(leaf)
        if self.stage == 1 and not self.enabled:
            return
        flat.missing.discard(leaf.name)
        if not flat.missing:
            flat.free()
            self._reduce(flat)

    def _reduce(self, flat: _Flat) -> None:
        if self.before_reduce is not None:
            self.before_reduce()
        self.collect()
        self.under_way = flat, flat.reduce()

    def on_its_way(self) -> tuple[int, int, int]:
        """Bytes of the unit that is being summed: the ring's room, the gradient that leaves, and
        the shard that will be made of it."""
        if self.under_way is None:
            return 0, 0, 0
        flat, room = self.under_way
        shard = flat.unit.numel // self.ranks * flat.gradient_width
        leaving = flat.leaving.nbytes if self.stage > 1 else 0
        return (
            0 if room is None else room.nbytes,
            leaving,
            shard if self.stage > 1 and flat.shard_gradient is None else 0,
        )

    def collect(self) -> None:
        if self.under_way is not None:
            flat, self.under_way = self.under_way[0], None
            flat.collect()

    def finish(self) -> None:
        for flat in self.units:
            begun = len(flat.missing) < len(flat.names)
            never_left = flat.shard_gradient is None and not (
                self.under_way and self.under_way[0] is flat
            )
            if begun or never_left:
                for name in sorted(flat.missing):
                    flat.take(self.program.leaves[name])
                self._reduce(flat)
        self.collect()

    def publish(self) -> None:
        if self.stage < 3:
            _copies = [flat._shard_copy(flat.width) for flat in self.units]

    def owned(self) -> list[Owned]:
        return [Owned(flat.unit.numel // self.ranks) for flat in self.units]

    def around(
        self, parts: list[str], run: Callable[[str, Value | None, int], Value]
    ) -> Callable[[str, Value | None, int], Value]:
        """Stage 3: weights are gathered for each part and the next, freed after, and gathered again
        in the backward pass."""
        if self.stage < 3:
            return run
        needs = [self._units_of(part) for part in parts]

        def present(i: int, then: int) -> None:
            for flat in (*needs[i], *(needs[then] if 0 <= then < len(needs) else ())):
                flat.gather()
            for flat in needs[i]:
                flat.arrived()

        def guarded(part: str, x: Value | None, micro: int) -> Value:
            i = parts.index(part)
            present(i, i + 1)
            y = run(part, x, micro)
            for flat in needs[i]:
                flat.free()
            z = y.detach()

            def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
                present(i, i - 1)
                return (gradients[0],)

            self.torch.record(z, (y,), (), backward)
            return z

        return guarded

    def _units_of(self, part: str) -> list[_Flat]:
        first: tuple[str, ...] = {
            "embed": ("token_embedding", "position_embedding"),
            "predict": ("final_norm", "head"),
        }.get(part, (f"{part}.",))
        if part == "predict" and self.tied:
            first += ("token_embedding",)
        return [flat for flat in self.units if any(name.startswith(first) for name in flat.names)]
