"""A run of the training script on this rank, watched from outside: nothing of it is read, all of it
is heard from torch's own hooks.

The script runs as torchrun would start it, with its command line, its environment and a folder of
its own; only joining the process group is done already. So a run takes a tenth of a second, and
whoever waits for whom is told by the launcher.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import TorchDispatchMode

from . import right
from .script import Part

CHECKPOINT = "checkpoint.pt"  # as the script calls it, in its folder
_replace = os.replace
# of each window of text, by its bytes: the first that has them
NUMBERS = {
    tuple(row): number
    for number, row in reversed([*enumerate(right.windows(0, 2_000).tensors[0].tolist())])
}


@dataclass
class Forward:
    """A forward pass of the model: the numbers of the windows that went in (-1: unknown), whether
    in training mode, the dtype of the last product, the bits that dropout let through."""

    rows: tuple[int, ...]
    training: bool
    dtype: torch.dtype | None = None
    mask: Tensor | None = None


@dataclass
class Update:
    """A call of optimizer.step, as it found things. `forwards`: how many there had been; `sent`:
    bytes of gradients handed to all-reduce since the update before; `skipped`: whether a scaler
    left it out (then there is no gradient); tensors are flat."""

    forwards: int
    rate: float
    sent: int
    scale: float | None
    weights: Tensor
    gradient: Tensor | None = None
    momentum: Tensor | None = None
    skipped: bool = True


@dataclass
class Facts:
    """All that was seen of a run on one rank. `written`: the paths that it saved or moved something
    to; `in_place`: those of them that it began to write over a whole one, or when the last whole
    checkpoint was gone. `device`: what `prepare` chose on a machine with two GPUs (see
    prepared.py), or what it raised; `again`: the first pass of a second run."""

    forwards: list[Forward] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    printed: str = ""
    written: list[str] = field(default_factory=list)
    in_place: list[str] = field(default_factory=list)
    device: str = ""
    again: Forward | None = None


class _Wire(TorchDispatchMode):
    """Bytes of floating-point numbers handed to all-reduce while gradients are computed: also by
    DistributedDataParallel, whose calls Python does not see."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace == "c10d" and func._opname.startswith(("allreduce", "reduce_scatter")):
            tensors = args[0] if isinstance(args[0], list | tuple) else [args[0]]
            self.sent += sum(x.numel() * x.element_size() for x in tensors if x.is_floating_point())
        return func(*args, **(kwargs or {}))


class Watch:
    """`with Watch() as watch:` the script runs; `watch.facts` then. `overflows`: this rank's first
    gradient does, as a large number in fp16 would."""

    def __init__(self, overflows: bool = False) -> None:
        self._numbers, self._overflows, self._had = NUMBERS, overflows, False
        self._wire, self._stack = _Wire(), contextlib.ExitStack()
        self.facts = Facts()

    def __enter__(self) -> Watch:
        enter = self._stack.enter_context
        enter(self._wire)
        for hook in (
            modules.register_module_forward_pre_hook(self._before_forward),
            modules.register_module_forward_hook(self._after_forward),
            optimizers.register_optimizer_step_pre_hook(self._at_step),
        ):
            self._stack.callback(hook.remove)
        enter(_around(torch.amp.GradScaler, "step", self._at_scaler))
        enter(_around(torch, "save", self._at_save))
        enter(_around(os, "replace", self._at_replace))
        enter(_around(os, "rename", self._at_replace))
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def _before_forward(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if type(module).__name__ == "Model":
            rows = tuple(self._numbers.get(tuple(row), -1) for row in inputs[0].tolist())
            self.facts.forwards.append(Forward(rows, module.training))
            if self._overflows:
                self._overflows = False
                self._make_overflow(next(module.parameters()))

    def _make_overflow(self, parameter: nn.Parameter) -> None:
        def once(gradient: Tensor) -> Tensor:
            hook.remove()
            return torch.full_like(gradient, torch.inf)

        hook = parameter.register_hook(once)

    def _after_forward(self, module: nn.Module, inputs: Any, output: Any) -> None:
        forward = self.facts.forwards[-1] if self.facts.forwards else None
        if forward and isinstance(module, nn.Linear):
            forward.dtype = output.dtype
        if forward and isinstance(module, nn.Dropout) and module.training and module.p:
            forward.mask = (output != 0).flatten()

    def _update(self, optimizer: torch.optim.Optimizer, scale: float | None) -> Update:
        parameters = _parameters(optimizer)
        sent, self._wire.sent = self._wire.sent, 0
        found = Update(
            len(self.facts.forwards),
            optimizer.param_groups[0]["lr"],
            sent,
            scale,
            _flat([p.detach() for p in parameters]),
        )
        self.facts.updates.append(found)
        return found

    def _at_scaler(self, step: Callable[..., Any], scaler: Any, optimizer: Any, *more: Any) -> Any:
        self._update(optimizer, scaler.get_scale())
        return step(scaler, optimizer, *more)

    def _at_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        updates, parameters = self.facts.updates, _parameters(optimizer)
        by_scaler = updates and updates[-1].scale is not None and updates[-1].skipped
        found = updates[-1] if by_scaler else self._update(optimizer, None)
        found.skipped = False
        found.gradient = _flat(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        )
        states = [optimizer.state[p].get("momentum_buffer") for p in parameters]
        found.momentum = None if any(s is None for s in states) else _flat(states)

    def _at_save(
        self, save: Callable[..., Any], value: Any, to: Any, *more: Any, **how: Any
    ) -> Any:
        name = to if isinstance(to, str | os.PathLike) else getattr(to, "name", None)
        if not isinstance(name, str | os.PathLike):
            return save(value, to, *more, **how)
        self._writes(name, is_open=to is not name)
        if to is not name:
            return save(value, to, *more, **how)
        # whole at once, whatever other ranks write there: what is judged is that they do
        unfinished = f"{name}.{os.getpid()}"
        save(value, unfinished, *more, **how)
        _replace(unfinished, name)
        return None

    def _writes(self, name: Any, is_open: bool) -> None:
        path = os.path.abspath(name)
        self.facts.written.append(path)
        # a file that is open exists already, whatever was there before
        over = path == os.path.abspath(CHECKPOINT) if is_open else os.path.exists(path)
        if over or self._has_lost_the_last():
            self.facts.in_place.append(path)

    def _has_lost_the_last(self) -> bool:
        there = os.path.exists(CHECKPOINT)
        lost, self._had = self._had and not there, self._had or there
        return lost

    def _at_replace(self, replace: Callable[..., Any], old: Any, new: Any, **how: Any) -> Any:
        self.facts.written.append(os.path.abspath(new))
        replace(old, new, **how)
        self._has_lost_the_last()


@contextlib.contextmanager
def _around(owner: Any, name: str, watcher: Callable[..., Any]) -> Iterator[None]:
    own = getattr(owner, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        return watcher(own, *args, **kwargs)

    with mock.patch.object(owner, name, watched):
        yield


def _parameters(optimizer: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([x.detach().flatten() for x in tensors]).clone()


def run_script(
    part: Part, arguments: Sequence[str], folder: Path, overflows: bool = False
) -> Facts:
    """Run the script with these words on its command line, in `folder`; what was seen. What it
    raises comes through."""
    said, watch = io.StringIO(), Watch(overflows)
    with contextlib.redirect_stdout(said), watch, as_script(part, arguments, folder, "__main__"):
        pass
    watch.facts.printed = said.getvalue()
    return watch.facts


@contextlib.contextmanager
def as_script(
    part: Part, arguments: Sequence[str], folder: Path, name: str
) -> Iterator[dict[str, Any]]:
    """The script's names, after it has run as the module `name`, where a script is: in its folder,
    with its command line, in a process that joins a group and leaves it."""
    before, argv = os.getcwd(), sys.argv
    os.chdir(folder)
    sys.argv = ["train.py", *arguments]
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            # the launch has joined the process group already, and leaves it
            for other in ("init_process_group", "destroy_process_group"):
                stack.enter_context(mock.patch.object(dist, other, _nothing))
            names = {"__name__": name, "__file__": part.filename}
            exec(part.code(), names)
            yield names
    finally:
        os.chdir(before)
        sys.argv = argv


def _nothing(*_: Any, **__: Any) -> None:
    pass
