"""Live bytes that nobody hides by accident: those of NumPy, of other threads, and of tensors that
Python reaches although no operation was seen to make them."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from ...i18n import t
from .live import LiveStorages, _tensors
from .ranks import BrokenRule

NUMPY = 389047  # numpy.lib.tracemalloc_domain


class Watch(LiveStorages):
    """LiveStorages for every thread that `watch_threads` has under its eyes, with NumPy's arrays in
    `now`."""

    def __init__(self, also: Callable[[], int] = lambda: 0) -> None:
        super().__init__(also)
        self._operations, self._apart = 0, False
        # storages made while ignoring; a weak reference keeps the address from being used again
        self._theirs: dict[int, StorageWeakRef] = {}
        if not tracemalloc.is_tracing():
            tracemalloc.start()
        tracemalloc.clear_traces()

    def now(self) -> int:
        """Bytes alive: storages, and NumPy's arrays since this was made."""
        gc.collect()
        self.follow(
            thing
            for thing in gc.get_objects()
            if issubclass(type(thing), Tensor) and self._has_bytes(thing)
        )
        return super().now() + numpy_bytes()

    def must_see(self) -> None:
        """Raises BrokenRule where operations pass unseen, because somebody switched dispatch modes
        off. Outside of this context nothing is asked."""
        if self not in _ENTERED:
            return
        before = self._operations
        torch.empty(0)
        if self._operations == before:
            raise BrokenRule(
                "watched",
                t(
                    "the check follows every operation of your code.",
                    "自动检查跟得上你的代码里的每一个运算。",
                ),
                t(
                    "torch's dispatch modes were switched off, and the check with them.",
                    "torch 的 dispatch mode 被关掉了，自动检查也随之失效。",
                ),
            )

    @contextmanager
    def ignoring(self) -> Iterator[None]:
        """What is made inside is the observer's own, and not counted."""
        before, self._apart = self._apart, True
        try:
            with super().ignoring():
                yield
        finally:
            self._apart = before

    def __enter__(self) -> Watch:
        _ENTERED.append(self)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        _ENTERED.remove(self)
        super().__exit__(*error)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self._operations += 1
        returned = super().__torch_dispatch__(func, types, args, kwargs)
        if self._apart:
            for tensor in _tensors([returned]):
                storage = tensor.untyped_storage()
                self._theirs[storage._cdata] = StorageWeakRef(storage)
        return returned

    def _has_bytes(self, tensor: Tensor) -> bool:
        try:
            return tensor.untyped_storage()._cdata not in self._theirs
        except (NotImplementedError, RuntimeError):
            return False


def numpy_bytes() -> int:
    """Bytes of NumPy's arrays that were made since tracing began; it reports them under a number of
    its own, numpy.lib.tracemalloc_domain."""
    # as tuples (domain, bytes, …): an object for each of thousands takes longer than the step
    traces = tracemalloc.take_snapshot().traces._traces
    return sum(size for domain, size, *_ in traces if domain == NUMPY)


_ENTERED: list[Watch] = []
_start = threading.Thread.start  # ours comes in its place once, however many answers there are


class _OfAnotherThread(TorchDispatchMode):
    """Hands a thread's operations to whoever watches at the time."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if _ENTERED:
            return _ENTERED[-1].__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))


def watch_threads() -> None:
    """From now on, in this process, what new threads do is seen, too: torch's modes belong to a
    thread."""

    def start(thread: threading.Thread) -> None:
        run = thread.run

        def watched() -> None:
            with _OfAnotherThread():
                run()

        thread.run = watched
        _start(thread)

    threading.Thread.start = start
