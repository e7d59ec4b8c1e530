"""Live bytes: every storage that is alive on this rank, now and at the most, however it is freed.

A tensor's `numel` says nothing of what it holds: a slice keeps its whole buffer, autograd keeps
what it saved, and `resize_(0)` empties a buffer under everybody's hands. So storages are counted,
each once, at the size that they have.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...i18n import t
from ...launch.gloo_threads import let_gloo_rest
from .ranks import BrokenRule

RESIZING = {"aten::resize_", "aten::set_"}

_alive: weakref.WeakSet[LiveStorages] = weakref.WeakSet()


@functools.cache
def _watch_resizing() -> None:
    """Hear of `storage.resize_`, which is no operation on a tensor. Once per process."""
    resize = torch.UntypedStorage.resize_

    def resize_(storage: torch.UntypedStorage, size: int) -> Any:
        returned = resize(storage, size)
        for live in _alive:
            live.resized(storage)
        return returned

    torch.UntypedStorage.resize_ = resize_


class LiveStorages(TorchDispatchMode):
    """While it is entered, every tensor that an operation returns is followed to the end of its
    storage.

    `now()` is the bytes alive, `peak` the most at any operation since `begin_peak()`, both without
    what was made outside and not given to `follow`. `also` is asked for a further number of bytes
    whenever the peak is looked at; its most is `also_peak`. Reading a storage that was emptied
    would end the process: here it breaks the rule "emptied", or where `phase` says what is being
    done ("forward", "backward"), the rule `{phase}.not-gathered`.
    """

    def __init__(self, also: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        # by address; a storage that ends leaves both before its address is used again
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._sizes: dict[int, int] = {}
        self._total = 0  # of the sizes, kept up as they change
        self._also, self._ignoring = also, False
        self.phase, self.peak, self.also_peak = "", 0, 0
        gc.collect()
        # what exists now stays: later collections look at the rest alone, and take no time
        gc.freeze()
        _watch_resizing()
        _alive.add(self)

    def follow(self, tensors: Iterable[Tensor]) -> None:
        """Count these, too, from now on."""
        for tensor in tensors:
            self._is_new(tensor)

    def now(self) -> int:
        """Bytes alive, after everything that nobody can reach any more is gone."""
        let_gloo_rest(seconds=0.2)
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

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if not func.is_view and func.name() not in RESIZING:
            for tensor in _tensors([*args, *(kwargs or {}).values()]):
                if tensor.numel() and not tensor.untyped_storage().nbytes():
                    self._refuse(func.name())
        try:
            returned = func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if "storage of size 0" in str(error):  # torch's own words, from some views
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
        address, size = storage._cdata, storage.nbytes()
        if address not in self._sizes:
            gone = functools.partial(self._gone, address)
            self._storages[address] = weakref.ref(storage, gone)
        elif self._sizes[address] == size:
            return False
        self._set(address, size)
        return True

    def _set(self, address: int, size: int) -> None:
        self._total += size - self._sizes.get(address, 0)
        self._sizes[address] = size

    def _gone(self, address: int, _: weakref.ref[torch.UntypedStorage]) -> None:
        self._total -= self._sizes.pop(address)
        del self._storages[address]

    def resized(self, storage: torch.UntypedStorage) -> None:
        """A storage has another size now, without an operation on a tensor."""
        if storage._cdata in self._sizes:
            self._set(storage._cdata, storage.nbytes())
            self._look()

    def _look(self) -> None:
        self.peak = max(self.peak, self._total)
        self.also_peak = max(self.also_peak, self._also())

    def _scan(self) -> int:
        """The sizes of all that are alive, asked for one by one."""
        for address, weak in list(self._storages.items()):
            storage = weak()
            if storage is not None:
                self._set(address, storage.nbytes())
        return self._total

    def _refuse(self, operation: str) -> None:
        name = operation.removeprefix("aten::")
        where = {
            "": "",
            "forward": t("in the forward pass, ", "前向传播中，"),
            "backward": t("in the backward pass, ", "反向传播中，"),
        }[self.phase]
        raise BrokenRule(
            f"{self.phase}.not-gathered" if self.phase else "emptied",
            t(
                "weights are there whenever an operation reads them.",
                "任何运算读取权重时，权重都在。",
            ),
            where
            + t(
                f"{name} was given a tensor whose storage is empty.",
                f"{name} 读到了存储已清空的张量。",
            ),
        )


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among `values`, also in lists and tuples."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
