"""A unit of ZeRO on one rank: parameters end to end in one flat buffer, cut into equal shards."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

import torch
from torch import Tensor, nn

from ..layout.units import Slice, Unit
from .comm import Axis, Pending


class ShardedState(Enum):
    """What of a unit's weights is here. In stages 1 and 2 always all."""

    SHARDED = auto()
    UNSHARDING = auto()  # the other ranks' shards are on their way
    UNSHARDED = auto()


class FlatUnit:
    """One unit's buffers on this rank. `parameters` are views of `whole`, `shard` is what this rank
    updates: in stages 1 and 2 a part of `whole`; in stage 3 a tensor of its own, and while the unit
    is sharded `whole` has no memory (its storage is resized to 0) and the parameters no elements.
    """

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
        self.name = unit.name
        self.whole = torch.zeros(unit.numel, dtype=gathered_dtype, device=device)
        self.views = {
            one.name: self.whole[one.offset : one.offset + one.numel].view(shapes[one.name])
            for one in unit.slices
        }
        self.parameters = {name: nn.Parameter(view.data) for name, view in self.views.items()}
        self.shard, self.state = self._mine(self.whole), ShardedState.UNSHARDED
        self._gathering = Pending()
        if stage == 3:
            self.shard = torch.zeros(unit.numel // axis.size, dtype=dtype, device=device)
            self._drop()
        # stage 1: of the whole unit, kept; else only while it is being filled
        self.gradient: Tensor | None = None
        self.shard_gradient: Tensor | None = None
        # while a sum is under way: the whole gradient, and in it the shard's sum
        self._leaving: Tensor | None = None
        self._summed: Tensor | None = None

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

    def unshard(self) -> None:
        """Stage 3: begin to gather the whole unit, unless that is done or under way."""
        if self.state is not ShardedState.SHARDED:
            return
        self.whole.untyped_storage().resize_(self.unit.numel * self.whole.element_size())
        for name, parameter in self.parameters.items():
            parameter.data = self.views[name]
        self.axis.ledger.hold("gathered", self.whole)
        self._mine(self.whole).copy_(self.shard)
        self._gathering = self.axis.all_gather(self.whole, purpose="parameter", label=self.name)
        self.state = ShardedState.UNSHARDING

    def wait_for_unshard(self) -> None:
        """Return when every weight of the unit may be used."""
        if self.state is ShardedState.UNSHARDING:
            self._gathering.wait()
            self.state = ShardedState.UNSHARDED

    def reshard(self) -> None:
        """Stage 3: drop the gathered weights. Autograd keeps its tensors, but their storage is
        empty until they are gathered again; a parameter has no elements meanwhile: outside its
        window a product with it fails, and a sum over it is 0."""
        if self.stage == 3 and self.state is not ShardedState.SHARDED:
            self.wait_for_unshard()
            self.axis.ledger.release("gathered", self.whole)
            self._drop()

    def _drop(self) -> None:
        # Freeing the storage, and not the tensors, leaves what autograd has saved valid: once the
        # unit is gathered into the same storage again, the saved views hold the weights again
        for parameter in self.parameters.values():
            parameter.data = parameter.data.new_empty(0)
        self.whole.untyped_storage().resize_(0)
        self.state = ShardedState.SHARDED

    def gather_updated(self) -> Pending:
        """Stages 1 and 2: begin to bring every rank's updated shard here."""
        return self.axis.all_gather(self.whole, purpose="parameter", label=self.name)

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
        """Begin to sum the flat gradient, each shard to its owner; `collect()` ends it."""
        self._leaving = self.gradient
        # the next micro-batch may fill a new one while this one travels
        if self.stage > 1:
            self.gradient = None
        self._summed, pending = self.axis.reduce_scatter(
            self._leaving, purpose="gradient", label=self.name
        )
        return pending

    def collect(self) -> None:
        """The sum has arrived: stage 1 leaves it where it is, stages 2 and 3 add it to the shard
        and free the rest."""
        if self.stage == 1:
            self.shard_gradient = self._summed
            self._leaving = self._summed = None
            return
        if self.shard_gradient is None:
            self.shard_gradient = self._summed.clone()
        else:
            self.shard_gradient += self._summed
        self.axis.ledger.release("buckets", self._leaving)
        self._leaving = self._summed = None


def flatten(group: dict[str, nn.Parameter], axis: Axis, stage: int) -> FlatUnit:
    """A unit of these parameters, which have one dtype and one device, with their values."""
    slices, offset = [], 0
    for name, parameter in group.items():
        slices.append(Slice(name, offset, parameter.numel()))
        offset += parameter.numel()
    first = next(iter(group))
    like = group[first]
    unit = Unit(
        f"{first} …" if len(group) > 1 else first,
        tuple(slices),
        -(-offset // axis.size) * axis.size,
    )
    shapes = {name: tuple(p.shape) for name, p in group.items()}
    flat = FlatUnit(unit, shapes, axis, stage, like.device, like.dtype, like.dtype)
    with torch.no_grad():
        for name, parameter in group.items():
            flat.fill(name, parameter)
            flat.parameters[name].requires_grad_(parameter.requires_grad)
    return flat


def install(model: nn.Module, parameters: Mapping[str, nn.Parameter]) -> None:
    """Put these in the place of the model's own of the same names; what was shared stays shared."""
    new = {
        id(old): parameters[name] for name, old in model.named_parameters() if name in parameters
    }
    for module in model.modules():
        for name, old in list(module.named_parameters(recurse=False, remove_duplicate=False)):
            if id(old) in new:
                setattr(module, name, new[id(old)])
