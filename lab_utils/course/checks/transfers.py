"""What really goes out through torch.distributed while somebody's code runs, whichever thread calls
it."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

NAMESPACES = ("c10d", "_c10d_functional")
METHODS = tuple(  # of ProcessGroup; what it is told to send leaves through one of them
    name
    for name in vars(dist.ProcessGroup)
    if name.strip("_").startswith(("all", "broadcast", "reduce", "gather", "scatter", "send"))
    or name.startswith(("barrier", "recv", "monitored"))
)


class Transfers(TorchDispatchMode):
    """While it is entered, `count[op]` and `bytes[op]` (of the tensors handed over) add up. It may
    be entered again to go on.

    The thread that enters is watched where operations are dispatched, all others where they call
    their process group.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self._before: dict[str, Callable[..., Any]] = {}
        self._thread = threading.get_ident()

    def __enter__(self) -> Transfers:
        self._thread = threading.get_ident()
        self._before = {name: getattr(dist.ProcessGroup, name) for name in METHODS}
        for name, method in self._before.items():
            setattr(dist.ProcessGroup, name, self._from_elsewhere(name, method))
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        for name, method in self._before.items():
            setattr(dist.ProcessGroup, name, method)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if func.namespace in NAMESPACES:
            self._add(func.name().partition("::")[2].rstrip("_"), args)
        return func(*args, **(kwargs or {}))

    def _from_elsewhere(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def counted(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                self._add(name, args)
            return method(*args, **kwargs)

        return counted

    def _add(self, op: str, args: Iterable[Any]) -> None:
        self.count[op] += 1
        self.bytes[op] += sum(tensor.nbytes for tensor in _tensors(args))


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)
