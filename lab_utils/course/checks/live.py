"""Live bytes: every storage that is alive on this rank, now and at the most, however it is freed.

A tensor's `numel` says nothing of what it holds: a slice keeps its whole buffer, autograd keeps what it saved, and
`resize_(0)` empties a buffer under everybody's hands. So storages are counted, each once, at the size that they have.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from ...i18n import t
from .ranks import BrokenRule

RESIZING = {"aten::resize_", "aten::set_"}


class LiveStorages(TorchDispatchMode):
    """While it is entered, every tensor that an operation returns is followed to the end of its storage.

    `now()` is the bytes alive, `peak` the most at any operation since `begin_peak()`, both without what was made
    outside and not given to `follow`. `also` is asked for a further number of bytes whenever the peak is looked at; its
    most is `also_peak`. Reading a storage that was emptied would end the process: here it breaks the rule "emptied",
    or where `phase` says what is being done ("forward", "backward"), the rule `{phase}.not-gathered`.
    """

    def __init__(self, also: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}      # by address, which a weak reference keeps from being used again
        self._also, self._ignoring = also, False
        self.phase, self.peak, self.also_peak = "", 0, 0
        gc.collect()
        gc.freeze()         # what exists now stays: later collections look at the rest alone, and take no time

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Count these, too, from now on."""
        for tensor in tensors:
            self._is_new(tensor)

    def now(self) -> int:
        """Bytes alive, after everything that nobody can reach any more is gone."""
        gc.collect()
        return self._scan()

    def begin_peak(self) -> None:
        """Look for the peak from here on."""
        self.peak = self.also_peak = 0
        self._look()

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """What is made inside is the observer's own, and not counted."""
        before, self._ignoring = self._ignoring, True
        try:
            yield
        finally:
            self._ignoring = before

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if not func.is_view and func.name() not in RESIZING:
            for tensor in _tensors([*args, *(kwargs or {}).values()]):
                if tensor.numel() and not tensor.untyped_storage().nbytes():
                    self._refuse(func.name())
        try:
            returned = func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if "storage of size 0" in str(error):       # torch's own words, from some views
                self._refuse(func.name())
            raise
        if not self._ignoring:
            found = [self._is_new(tensor) for tensor in _tensors([returned])]
            if any(found):
                self._look()
        return returned

    def _is_new(self, tensor: Tensor) -> bool:
        """Whether its storage was never seen, or has another size than when it was."""
        storage = tensor.untyped_storage()
        known = self._storages.get(storage._cdata)
        if known is None or known[1] != storage.nbytes():
            self._storages[storage._cdata] = (StorageWeakRef(storage) if known is None else known[0], storage.nbytes())
            return True
        return False

    def _look(self) -> None:
        self.peak = max(self.peak, self._scan())
        self.also_peak = max(self.also_peak, self._also())

    def _scan(self) -> int:
        total = 0
        for address, (weak, _) in list(self._storages.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(weak.cdata)
            if storage is None:
                del self._storages[address]
            else:
                total += storage.nbytes()
        return total

    def _refuse(self, operation: str) -> None:
        name = operation.removeprefix("aten::")
        where = {"": "", "forward": t("in the forward pass, ", "前向传播中，"), "backward": t("in the backward pass, ", "反向传播中，")}[self.phase]
        raise BrokenRule(f"{self.phase}.not-gathered" if self.phase else "emptied",
                         t("weights are there whenever an operation reads them.", "任何运算读取权重时，权重都在。"),
                         where + t(f"{name} was given a tensor whose storage is empty.", f"{name} 读到了存储已清空的张量。"))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among `values`, also in lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
