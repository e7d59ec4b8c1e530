"""Peak memory, counted on live storages: every tensor that comes into being is noted, and noted
again when its storage dies."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from .memory import SavedActivations

Held = Mapping[str, list[Tensor] | None]


class LiveStorages(TorchDispatchMode):
    """Context that knows the bytes of all storages alive: those of `held()` and `others` when it
    begins, and every result of an operation inside it until its storage dies.

    `peak` is the most bytes at any moment, `at_peak()` what they were: `held()`'s terms as they
    were then, "gathered" and "buckets" as the engine's ledger says (give it `observe`), what
    `saved` counts as activations and weight copies, and "temporary" for all else. What a kernel
    allocates inside itself is not seen, nor what autograd would do differently without a dispatch
    mode: gradients that meet are added out of place, so a peak there is one of them higher.
    "offloaded" tensors, and what comes into being while `on_host()`, are the host's: not counted.
    """

    def __init__(
        self,
        held: Callable[[], Held],
        saved: SavedActivations,
        others: Iterable[Tensor] = (),
        on_host: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._held, self._saved, self._on_host = held, saved, on_host
        self._bytes: dict[int, int] = {}
        # storages that the engine's ledger has named, by what it calls them
        self._engine: dict[int, str] = {}
        self.now = self.peak = 0
        self._new_peak = False
        self._at_peak: tuple[dict[int, int], dict[int, str]] = {}, {}
        for tensor in others:
            self._track(tensor)
        for term, tensors in held().items():
            if term != "offloaded":
                for tensor in tensors or ():
                    self._track(tensor)
        self._settle()

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if self._on_host():
            return result
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                self._track(value)
        self._settle()
        return result

    def observe(self, what: str, tensor: Tensor, held: bool) -> None:
        """The engine begins (`held`) or ceases to keep `tensor` as part of `what`; gathered weights
        change their size then."""
        if what == "activations":
            return
        self._track(tensor)
        key = tensor.untyped_storage()._cdata
        if held:
            self._engine[key] = what
        else:
            self._engine.pop(key, None)
        if what == "gathered":
            self._resize(key, tensor.untyped_storage().nbytes() if held else 0)
            self._settle()

    def at_peak(self) -> dict[str, int]:
        """Bytes by term at the moment of the peak; they add up to it."""
        sizes, terms = self._at_peak
        found: dict[str, int] = {}
        for key, nbytes in sizes.items():
            term = terms.get(key, "temporary")
            found[term] = found.get(term, 0) + nbytes
        return found

    def _track(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._bytes:
            self._bytes[key] = 0
            # held strongly, we and the engine would never be let go
            weakref.finalize(storage, _told, weakref.ref(self), key)
            self._resize(key, storage.nbytes())

    def _resize(self, key: int, nbytes: int) -> None:
        self.now += nbytes - self._bytes[key]
        self._bytes[key] = nbytes
        if self.now > self.peak:
            self.peak, self._new_peak = self.now, True

    def _dies(self, key: int) -> None:
        # nothing else may be asked here: a tensor is just being torn down
        self.now -= self._bytes.pop(key)
        self._engine.pop(key, None)

    def _settle(self) -> None:
        """After a new peak: note of what, before anything else happens."""
        if not self._new_peak:
            return
        self._new_peak = False
        terms = {
            key: "weight_copies" if copy else "activations"
            for key, copy in self._saved.holding().items()
        }
        for term, tensors in reversed(self._held().items()):
            terms.update((tensor.untyped_storage()._cdata, term) for tensor in tensors or ())
        self._at_peak = dict(self._bytes), terms | self._engine


def _told(live: weakref.ref[LiveStorages], key: int) -> None:
    if (here := live()) is not None:
        here._dies(key)
