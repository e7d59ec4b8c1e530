"""ZeRO's stages without numbers: the events of layout/zero_events.py carried out on buffers that
have a size and nothing in them, as parallel/zero.py does on real ones, with sync.py's calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ....config import TrainConfig
from ....layout.units import Unit, units_of_part
from ....layout.zero_events import Do, Event, ReduceOrder, after_part, after_update, before_part
from ...program.conventions import Collectives
from ...program.live import Storage, Value
from ...program.model import Program
from ...program.tape import Leaf


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
        self.sharded, self.gathering = stage == 3, None
        if stage == 3 and not self.waits:
            self.gathering = self._shard_copy(gathered)
        self.leaving: Storage | None = None

    def _shard_copy(self, width: int) -> Value | None:
        """What an all-gather holds for as long as it is remembered: its own copy of the shard."""
        return None if self.in_place else self.torch.new(self.unit.numel // self.sync.ranks, width)

    def unshard(self) -> None:
        if self.sharded:
            self.whole.resize(self.unit.numel * self.gathered_width)
            self.gathering, self.sharded = self._shard_copy(self.gathered_width), False

    def wait_for_unshard(self) -> None:
        if self.waits:
            self.gathering = None

    def reshard(self) -> None:
        if self.sync.stage == 3 and not self.sharded:
            self.whole.resize(0)
            self.sharded = True

    def gather_updated(self) -> Value | None:
        return self._shard_copy(self.width)

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
        self.leaving = self.gradient
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
        self.unit = {flat.unit.name: flat for flat in self.units}
        self.order = ReduceOrder([flat.unit for flat in self.units], self.stage)
        for name, unit in self.order.unit_of.items():
            flat, leaf = self.unit[unit], program.leaves[name]
            leaf.value = Value(flat.whole, leaf.value.numel, flat.gathered_width, leaf)
            leaf.hook = self._gradient_exists
            leaf.grad = (
                Value(flat.gradient, leaf.value.numel, flat.gradient_width)
                if self.stage == 1
                else None
            )
        self.enabled = True
        self.rooms: dict[str, Value | None] = {}  # of collectives under way, by unit
        self.before_reduce: Callable[[], None] | None = None

    def zero_grad(self) -> None:
        for leaf in self.program.leaves.values():
            leaf.grad = None
        self.order.begin_step()
        for flat in self.units:
            flat.shard_gradient = None

    def _gradient_exists(self, leaf: Leaf) -> None:
        self.unit[self.order.unit_of[leaf.name]].take(leaf)
        for event in self.order.gradient(leaf.name, last_micro_batch=self.enabled):
            if self.before_reduce is not None and event.do in (Do.COLLECT, Do.REDUCE):
                self.before_reduce()
            self._carry_out([event])

    def finish(self) -> None:
        self._carry_out(self.order.finish())

    def collect(self) -> None:
        """Nothing is under way any more."""
        self._carry_out(self.order.collect())

    def gather_parameters(self) -> None:
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
                case Do.NO_GRADIENT:
                    self.unit[self.order.unit_of[name]].take(self.program.leaves[name])
                case Do.REDUCE:
                    self.rooms[name] = self.unit[name].reduce()
                case Do.COLLECT:
                    del self.rooms[name]
                    self.unit[name].collect()
                case Do.GATHER:
                    self.rooms[name] = self.unit[name].gather_updated()
                case Do.WAIT_FOR_GATHER:
                    del self.rooms[name]

    def on_its_way(self) -> tuple[int, int, int]:
        """Bytes of the unit that is being summed: the ring's room, the gradient that leaves, and
        the shard that will be made of it."""
        if self.order.under_way is None:
            return 0, 0, 0
        flat, room = self.unit[self.order.under_way], self.rooms[self.order.under_way]
        shard = flat.unit.numel // self.ranks * flat.gradient_width
        leaving = flat.leaving.nbytes if self.stage > 1 else 0
        return (
            0 if room is None else room.nbytes,
            leaving,
            shard if self.stage > 1 and flat.shard_gradient is None else 0,
        )

    def optimizer_numels(self) -> list[int]:
        """Elements of each tensor that the optimizer updates."""
        return [flat.unit.numel // self.ranks for flat in self.units]

    def wrap(
        self, parts: list[str], run: Callable[[str, Value | None, int], Value]
    ) -> Callable[[str, Value | None, int], Value]:
        """Stage 3: weights are unsharded for each part and the next, resharded after, and unsharded
        again in the backward pass."""
        if self.stage < 3:
            return run
        units = [flat.unit for flat in self.units]
        needs = [[u.name for u in units_of_part(part, units, self.tied)] for part in parts]

        def wrapped(part: str, x: Value | None, micro: int) -> Value:
            i = parts.index(part)
            self._carry_out(before_part(needs[i], needs[i + 1] if i + 1 < len(needs) else ()))
            y = run(part, x, micro)
            self._carry_out(after_part(needs[i]))
            z = y.detach()

            def backward(saved: list[Value], gradients: list[Value]) -> tuple[Value]:
                self._carry_out(before_part(needs[i], needs[i - 1] if i > 0 else ()))
                return (gradients[0],)

            self.torch.record(z, (y,), (), backward)
            return z

        return wrapped
