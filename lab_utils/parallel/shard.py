"""`shard(model, axis, stage)`: ZeRO for any module. What zero.py does to our GPT part by part,
hooks do here to the modules that are named as units.

A unit's own parameters lie in one flat buffer for each dtype; what belongs to no unit, or to
several at once (tied weights), belongs to the whole model, which is a unit itself. In stage 3 a
unit is present while its module computes, and the next in the order of the first pass is on its
way: PyTorch's FSDP works by the same steps (Zhao et al. 2023, "PyTorch FSDP", section 3).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from ..i18n import t
from ..layout.zero_events import after_part, before_part
from .comm import Axis
from .flat_unit import FlatUnit, flatten, install
from .gradient_sync import Others, axis_of, same_start
from .zero import BeforeBackward, ShardedSync


def shard(
    model: nn.Module,
    axis: Axis,
    stage: int,
    *,
    units: Iterable[nn.Module] | None = None,
    average: bool = False,
    broadcast: bool = True,
    others: Others | None = None,
) -> Sharded:
    """Cut the states of `model` over `axis`, in place: stage 1 those of the optimizer, 2 also
    gradients, 3 also weights.

    `units`: submodules that are gathered one at a time; None: the members of the largest ModuleList
    or Sequential. `average`: gradients are the mean over the ranks, not the sum. `broadcast`: first
    give all ranks rank 0's weights and buffers. A step is

        zero = shard(model, axis, 3, average=True)
        optimizer = AdamW(zero.shards)                                  # once
        zero.zero_grad(), loss.backward(), zero.finish(), optimizer.step(), zero.gather_parameters()

    Parameters are frozen before, not after. `others`: as in data_parallel, parameters that are cut
    over another axis. Raises ValueError for another stage, and for units that
    are no part of the model.
    """
    if stage not in (1, 2, 3):
        raise ValueError(
            t(
                f"ZeRO has stages 1, 2 and 3, not {stage!r}.",
                f"ZeRO 只有 1、2、3 级，没有 {stage!r}。",
            )
        )
    if broadcast:
        same_start(model, axis, others)
    rooms: dict[nn.Module, list[FlatUnit]] = {}
    for module, parameters in _by_unit(model, units).items():
        rooms[module] = [
            flatten(group, axis_of(next(iter(group)), axis, others), stage)
            for group in _alike(parameters, stage == 3, lambda name: axis_of(name, axis, others))
        ]
    flats = [unit for room in rooms.values() for unit in room]
    install(model, {name: p for unit in flats for name, p in unit.parameters.items()})
    return Sharded(model, axis, rooms, average)


class Sharded(ShardedSync):
    """A model whose states are cut over an axis; see `shard`. `shards`: this rank's part of every
    unit that is trained, for the optimizer."""

    def __init__(
        self, model: nn.Module, axis: Axis, rooms: dict[nn.Module, list[FlatUnit]], average: bool
    ) -> None:
        every = [unit for flats in rooms.values() for unit in flats]
        super().__init__(model, axis, [unit for unit in every if _trained(unit)])
        self.averaged_over = axis.size if average else 1
        self.rooms, self.all_units = rooms, every
        self.unit = {unit.name: unit for unit in every}
        self.shards = [nn.Parameter(unit.shard) for unit in self.units]
        self._order: list[nn.Module] = []  # of the modules, as they first ran
        if any(unit.stage == 3 for unit in every):
            for module in rooms:
                self._guard(module)

    def zero_grad(self) -> None:
        super().zero_grad()
        for one in self.shards:
            one.grad = None

    def finish(self) -> None:
        """Return when every shard has its gradient in `.grad`."""
        super().finish()
        for unit, one in zip(self.units, self.shards, strict=True):
            one.grad = self._share(unit.shard_gradient)
        for unit in self.all_units:  # what took no part in the backward pass
            unit.reshard()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Inside, every rank has every weight: to save a checkpoint, or to look at it."""
        self._carry_out(before_part(self.unit, ()))
        try:
            yield
        finally:
            self._carry_out(after_part(self.unit))

    # -- stage 3 -----------------------------------------------------------------------------------

    def _guard(self, module: nn.Module) -> None:
        """Have the module's units present while it computes, forward and backward.

        The model holds the hooks, so they must not hold us: a process group in a cycle outlives the
        interpreter (see GradientSync).
        """
        me = weakref.ref(self)

        def before(module: nn.Module, args: Any, kwargs: Any) -> Any:
            if (sync := me()) is None:
                return None
            sync._present(module, then=-1 if _recomputing() else 1)
            return sync._reshard_frozen_after(module, (args, kwargs))

        def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
            # recomputed, the weights stay for the backward pass that follows at once
            if (sync := me()) is None or _recomputing():
                return None
            sync._carry_out(after_part(sync._units_in(module)))
            return _when_backward_comes(output, lambda: me() and me()._present(module, then=-1))

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after, with_kwargs=True)

    def _present(self, module: nn.Module, then: int) -> None:
        """Return when the module's weights may be used; those of its neighbour in the order of
        running, `then` places on, are under way."""
        if module not in self._order:
            self._order.append(module)
        neighbour, ahead = self._order.index(module) + then, ()
        # backward, an outer unit came before what is inside of it, and may be done
        if 0 <= neighbour < len(self._order) and not (
            then < 0 and module in set(self._order[neighbour].modules())
        ):
            ahead = self._units_in(self._order[neighbour])
        self._carry_out(before_part(self._units_in(module), ahead))

    def _units_in(self, module: nn.Module) -> list[str]:
        return [unit.name for unit in self.rooms[module]]

    def _reshard_frozen_after(self, module: nn.Module, inputs: Any) -> Any:
        """A unit that is trained is resharded when its gradients leave; a frozen one when the
        backward pass has come to all of the module's inputs."""
        frozen = [unit for unit in self.rooms[module] if not _trained(unit)]
        if not frozen:
            return inputs
        waiting = set[int]()

        def arrived(number: int) -> None:
            waiting.discard(number)
            if not waiting:
                for unit in frozen:
                    unit.reshard()

        def mark(x: Tensor) -> Tensor:
            if not x.requires_grad:
                return x
            number = len(waiting)
            waiting.add(number)
            return BeforeBackward.apply(x, partial(arrived, number))

        return tree_map_only(Tensor, mark, inputs)


def _recomputing() -> bool:
    """Whether a forward pass runs inside a backward pass: a checkpoint's second run."""
    return torch._C._current_graph_task_id() != -1


def _when_backward_comes(output: Any, callback: Callable[[], Any]) -> Any:
    return tree_map_only(
        Tensor, lambda y: BeforeBackward.apply(y, callback) if y.requires_grad else y, output
    )


# -- which parameter lies where --------------------------------------------------------------------


def _by_unit(
    model: nn.Module, units: Iterable[nn.Module] | None
) -> dict[nn.Module, dict[str, nn.Parameter]]:
    """The model and its units, each with the parameters that are in no unit inside of it."""
    chosen = list(_largest_list(model) if units is None else units)
    inside = {module: set(module.modules()) for module in (model, *chosen)}
    if strangers := [type(unit).__name__ for unit in chosen if unit not in inside[model]]:
        raise ValueError(
            t(
                f"{', '.join(strangers)}: a unit must be a submodule of the model that is cut.",
                f"{'、'.join(strangers)}：单元必须是所切分模型的子模块。",
            )
        )
    owners: dict[int, set[nn.Module]] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(module)
    # modules() names the outer before the inner
    outer_first = [module for module in model.modules() if module in inside]
    rooms: dict[nn.Module, dict[str, nn.Parameter]] = {module: {} for module in outer_first}
    for name, parameter in model.named_parameters():
        *_, innermost = (m for m in outer_first if owners[id(parameter)] <= inside[m])
        rooms[innermost][name] = parameter
    return {module: parameters for module, parameters in rooms.items() if parameters}


def _largest_list(model: nn.Module) -> list[nn.Module]:
    lists = [
        m
        for m in model.modules()
        if isinstance(m, nn.ModuleList | nn.Sequential) and m is not model
    ]
    largest = max(lists, key=lambda m: sum(p.numel() for p in m.parameters()), default=None)
    return [] if largest is None else [m for m in largest if any(True for _ in m.parameters())]


def _alike(
    parameters: dict[str, nn.Parameter], frozen_too: bool, axis: Callable[[str], Axis]
) -> Iterator[dict[str, nn.Parameter]]:
    """Those of one dtype, one device and one axis that are all trained, or all frozen."""
    groups: dict[Any, dict[str, nn.Parameter]] = {}
    for name, p in parameters.items():
        if p.requires_grad or frozen_too:
            groups.setdefault((p.dtype, p.device, p.requires_grad, axis(name).name), {})[name] = p
    yield from groups.values()


def _trained(unit: FlatUnit) -> bool:
    return all(parameter.requires_grad for parameter in unit.parameters.values())
