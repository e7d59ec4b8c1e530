"""`tensor_parallel(module, axis, plan)`: tensor parallelism for any module.

What tensor.py does to our GPT, by its names and with sequence parallelism, is done here by a plan:
every layer that it names keeps its part of the weights and gets the class of its style.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..i18n import t
from ..layout.stages import part_of
from .comm import Axis
from .flat_unit import install
from .gradient_sync import same_start
from .styles import PRODUCTS, STYLES, kind_of
from .tensor import Region
from .tensor_plan import Attributes, Cut, Entry, TensorPlan, is_style, matched, refuse_entry


def tensor_parallel(
    module: nn.Module, axis: Axis, plan: TensorPlan, *, broadcast: bool = True
) -> TensorParallel:
    """Share the layers of `module` out over the ranks of `axis`, in place; the module is whole on
    every rank before.

    `plan`: {pattern of module names, as in a shell: style}. Styles: "column" (a linear layer or
    convolution has 1/N of the outputs; the input's gradient is summed), "row" (1/N of the inputs;
    the output is summed, then the bias added), "vocabulary" (an embedding has 1/N of the rows),
    "head" (column; then the logits are gathered), "heads" (a torch.nn.MultiheadAttention has 1/N of
    the heads), "channels" (a GroupNorm between column and row), "summed" (whole, but between column
    and row, as a norm over each head is: gradients are summed), "enter" (a module in which several
    columns read one input, which is entered once). With particulars: Cut("column", groups=3). A
    module that counts heads gets Attributes("num_heads"); several entries stand in a list. What
    the plan does not name stays whole and is computed alike on every rank, from the same input and
    the same random numbers. A weight that modules share must be cut alike in all of them.

    `broadcast`: first give all ranks rank 0's weights and buffers. Make the optimizer, and call
    `data_parallel` or `shard`, afterwards. On an axis of one rank: the identity. Raises ValueError
    for a plan that does not fit (Shoeybi et al. 2019, "Megatron-LM", section 3).
    """
    entries = matched(module, plan)
    for name, entry in entries:
        refuse_entry(module.get_submodule(name), name, entry, axis.size)
    if broadcast:
        same_start(module, axis)
    cuts = _cuts(module, entries)
    shared = TensorParallel(module, axis, cuts)
    if axis.size == 1:
        return shared
    with torch.no_grad():
        parts = {
            name: nn.Parameter(p.index_select(*cuts[name].here(axis)), p.requires_grad)
            for name, p in module.named_parameters()
            if name in cuts
        }
    install(module, parts)
    region = Region(axis, sequence_parallel=False)
    inside = {
        layer
        for name, entry in entries
        if is_style(entry, "enter")
        for layer in module.get_submodule(name).modules()
        if layer is not module.get_submodule(name)
    }
    for name, entry in entries:
        layer = module.get_submodule(name)
        _convert(layer, entry, region, entered=layer in inside)
    for name, layer in module.named_modules():
        if isinstance(layer, nn.TransformerEncoder):  # its layers do not expect a ragged batch
            layer.use_nested_tensor = False
        found = kind_of(layer)
        if found and found[0] in PRODUCTS:
            layer.register_forward_pre_hook(partial(_features_come, name))
    return shared


@dataclass(frozen=True)
class Placed:
    """Which part of a parameter is here: of `groups` runs along `dim`, this rank's part of each."""

    dim: int
    groups: int
    size: int  # of one group, on all ranks together

    def here(self, axis: Axis, rank: int | None = None) -> tuple[int, Tensor]:
        """(dim, the places along it) of what a rank holds, this one if none is named."""
        first, count = part_of(self.size, axis.size, axis.rank if rank is None else rank)
        runs = [torch.arange(count) + first + group * self.size for group in range(self.groups)]
        return self.dim, torch.cat(runs)


@dataclass(frozen=True)
class TensorParallel:
    """A module whose layers are shared out, and which of its parameters are cut."""

    module: nn.Module
    axis: Axis
    cuts: Mapping[str, Placed]

    def whole(self) -> dict[str, Tensor]:
        """A state_dict of the whole module, on every rank: to save a checkpoint, or to look at it.
        Costs a whole model of memory."""
        found = {}
        for name, x in self.module.state_dict().items():
            found[name] = x.detach().clone()
            if name in self.cuts and self.axis.size > 1:
                placed, shape = self.cuts[name], list(x.shape)
                shape[placed.dim] = placed.groups * placed.size
                dim, places = placed.here(self.axis)
                found[name] = x.new_zeros(shape).index_copy_(dim, places, x.detach())
                self.axis.all_reduce(found[name], purpose="parameter", label=name).wait()
        return found

    def gradient_norm(self) -> Tensor:
        """The norm (0-dim float64) of the whole module's gradient, the same on every rank: to clip
        by; torch's clip_grad_norm_ would take each rank's parts for the whole."""
        total = torch.zeros(2, dtype=torch.float64, device=next(self.module.parameters()).device)
        for name, parameter in self.module.named_parameters():
            if parameter.grad is not None:
                total[int(name in self.cuts)] += parameter.grad.double().square().sum()
        self.axis.all_reduce(total[1:], purpose="control", label="gradient norm").wait()
        return total.sum().sqrt()


def _cuts(module: nn.Module, entries: list[tuple[str, Entry]]) -> dict[str, Placed]:
    """The parameters that are cut, by every name that they go by.

    Raises ValueError where a weight is cut in one module and not, or otherwise, in another, and
    where one stays whole though a rank sees only a part of what it does.
    """
    cuts: dict[str, Placed] = {}
    for name, entry in entries:
        if isinstance(entry, Cut):
            cuts |= _placed(module.get_submodule(name), name, entry)
    ways: dict[int, dict[Placed | None, str]] = {}
    for outer, layer in module.named_modules():
        for own, parameter in layer.named_parameters(recurse=False, remove_duplicate=False):
            name = f"{outer}.{own}".lstrip(".")
            ways.setdefault(id(parameter), {}).setdefault(cuts.get(name), name)
    for differing in ways.values():
        if len(differing) > 1:
            one, other, *_ = differing.values()
            raise ValueError(
                t(
                    f"{one} and {other} are one weight, which the plan cuts in two ways: name both"
                    ' ("vocabulary" and "head" agree), or neither.',
                    f"{one} 和 {other} 是同一个权重，计划却要求两种切法：请两个都写上"
                    "（vocabulary 与 head 的切法一致），或者都不写。",
                )
            )
    _refuse_whole_inside(module, entries)
    every_name = module.named_parameters(remove_duplicate=False)
    placed = {name: next(iter(ways[id(parameter)])) for name, parameter in every_name}
    return {name: place for name, place in placed.items() if place is not None}


def _refuse_whole_inside(module: nn.Module, entries: list[tuple[str, Entry]]) -> None:
    planned = {name for name, entry in entries if isinstance(entry, Cut)}
    for entrance in (name for name, entry in entries if is_style(entry, "enter")):
        for name, layer in module.get_submodule(entrance).named_modules(prefix=entrance):
            unplanned = not any(name == p or name.startswith(f"{p}.") for p in planned - {entrance})
            if unplanned and next(layer.parameters(recurse=False), None) is not None:
                outer = entrance or type(module).__name__
                raise ValueError(
                    t(
                        f"{name} stays whole inside {outer}, where a rank sees a part of the"
                        ' work: name it too (as "summed" its gradients are added up).',
                        f"{name} 在 {outer} 之内却保持完整，而那里每个 rank 只看到一部分计算："
                        "请把它也写进计划（写作 summed，则梯度会求和）。",
                    )
                )


def _placed(module: nn.Module, name: str, entry: Cut) -> Iterator[tuple[str, Placed]]:
    style, found = STYLES[entry.style], kind_of(module)
    for parameter, side in style.parameters.items():
        owner, _, attribute = parameter.rpartition(".")
        whole = getattr(module.get_submodule(owner), attribute)
        if whole is not None:
            dim = 0 if whole.dim() == 1 else getattr(found[1], side)
            # the inputs of a fused projection are one run
            groups = max(style.groups, entry.groups) if side == style.size else 1
            yield f"{name}.{parameter}".lstrip("."), Placed(dim, groups, whole.shape[dim] // groups)


def _convert(module: nn.Module, entry: Entry, region: Region, entered: bool) -> None:
    """Give a module the class of its style, and its part of what it counts."""
    n, rank = region.axis.size, region.axis.rank
    if isinstance(entry, Attributes):
        for attribute in entry:
            setattr(module, attribute, getattr(module, attribute) // n)
        return
    style, found, cls = STYLES[entry.style], kind_of(module), type(module)
    module.region, module.kind, module.entered = region, found and found[1], entered
    if style.size is not None:
        count = found[1].sizes[style.size == "inputs"]
        module.total = getattr(module, count)
        start, length = part_of(module.total, n, rank)
        setattr(module, count, length)
        if entry.style == "vocabulary":
            module.start = start
            padding = module.padding_idx
            here = padding is not None and start <= padding < start + length
            module.padding_idx = padding - start if here else None
    module.__class__ = type(f"{style.layer.__name__}Parallel{cls.__name__}", (style.layer, cls), {})


def _features_come(name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
    """Say where a plan's two halves do not meet, before torch speaks of shapes."""
    kind = kind_of(module)[1]
    expected = getattr(module, kind.sizes[1])
    if args and args[0].shape[kind.features] != expected:
        came = args[0].shape[kind.features]
        raise ValueError(
            t(
                f"{name} reads {expected} features, and {came} came: after what is cut by column"
                " the plan needs what is cut by row, and before it the other way round.",
                f"{name} 读入 {expected} 个特征，来的却是 {came} 个：计划中，列并行的层之后要有"
                "行并行的层，行并行的层之前要有列并行的层。",
            )
        )
