"""Bytes, counted on live storages: what is held between steps, and what is saved for the backward
pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


def storage_bytes(tensors: Iterable[Tensor], seen: set[int] | None = None) -> int:
    """Bytes of the distinct storages behind `tensors`; storages already in `seen` count 0, new ones
    are added to it."""
    seen = set() if seen is None else seen
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            total += storage.nbytes()
    return total


def held_bytes(held: Mapping[str, list[Tensor] | None]) -> dict[str, int | None]:
    """Bytes behind each term, in the order given; a storage that several terms share counts for the
    first of them.

    So gradients that are views of a bucket count as gradients, with the whole bucket, and "buckets"
    is only what is extra. None, out of sight, stays None.
    """
    seen: set[int] = set()
    return {
        term: None if tensors is None else storage_bytes(tensors, seen)
        for term, tensors in held.items()
    }


def _local(tensor: Tensor) -> Tensor:
    """What this rank has of a DTensor, whose own storage is as large as the whole and empty; any
    other tensor itself."""
    return getattr(tensor, "_local_tensor", tensor)


class _Saved:
    """A tensor that the autograd graph holds; when the graph lets go of it, the meter is told."""

    def __init__(self, tensor: Tensor, meter: SavedActivations) -> None:
        self.tensor, self.meter = tensor, meter
        meter._hold(tensor)

    def __del__(self) -> None:
        self.meter._release(self.tensor)


class _WeightCopies(TorchDispatchMode):
    """Notes which storages are copies of `weights` in another format: what autocast makes, or our
    own products under it."""

    def __init__(self, weights: set[int]) -> None:
        super().__init__()
        self.weights, self.copies = weights, set[int]()

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if (
            function is torch.ops.aten._to_copy.default
            and args[0].untyped_storage()._cdata in self.weights
        ):
            storage = result.untyped_storage()
            self.copies.add(storage._cdata)
            # its address may be given to another tensor
            weakref.finalize(storage, self.copies.discard, storage._cdata)
        return result


class SavedActivations:
    """Context in which forward passes run: `peak` is the most bytes ever saved for backward at one
    moment.

    Storages are counted once however many tensors share them; parameters and buffers of `model` are
    left out, as are `weights` that an engine keeps elsewhere. Copies of weights in the autocast
    format are counted apart: `copies_peak`. `observe` takes what the engine keeps itself, as a
    ledger's observer: activations count with the others, for everything else `peaks` has the most
    bytes by what they are.
    """

    def __init__(self, model: nn.Module, weights: Iterable[Tensor] = ()) -> None:
        # kept alive, or an activation might be given the address of one that is gone
        self._weights = [
            x.untyped_storage() for x in (*model.parameters(), *model.buffers(), *weights)
        ]
        self._excluded = {storage._cdata for storage in self._weights}
        self._casts = _WeightCopies(self._excluded)
        self._holders: dict[int, int] = {}
        self._held_copies: set[int] = set()
        self.now = self.peak = self.copies = self.copies_peak = 0
        self.peaks: dict[str, int] = {}
        self._kept: dict[str, int] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(
            self._pack, lambda held: held.tensor if isinstance(held, _Saved) else held
        )

    def __enter__(self) -> SavedActivations:
        self._casts.__enter__()
        self._hooks.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hooks.__exit__(kind, error, trace)
        self._casts.__exit__(kind, error, trace)

    def holding(self) -> dict[int, bool]:
        """The storages held at this moment, by address: whether each is a copy of a weight."""
        return {key: key in self._held_copies for key in self._holders}

    def observe(self, what: str, tensor: Tensor, held: bool) -> None:
        """The engine begins (`held`) or ceases to keep `tensor` as part of `what`."""
        if what == "activations":
            (self._hold if held else self._release)(tensor)
            return
        self._kept[what] = (
            self._kept.get(what, 0) + (1 if held else -1) * tensor.untyped_storage().nbytes()
        )
        self.peaks[what] = max(self.peaks.get(what, 0), self._kept[what])

    def _pack(self, tensor: Tensor) -> _Saved | Tensor:
        return (
            tensor
            if _local(tensor).untyped_storage()._cdata in self._excluded
            else _Saved(tensor, self)
        )

    def _hold(self, tensor: Tensor) -> None:
        storage = _local(tensor).untyped_storage()
        key = storage._cdata
        if key not in self._holders:
            self._holders[key] = 0
            if key in self._casts.copies:
                self._held_copies.add(key)
                self.copies += storage.nbytes()
                self.copies_peak = max(self.copies_peak, self.copies)
            else:
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
        self._holders[key] += 1

    def _release(self, tensor: Tensor) -> None:
        storage = _local(tensor).untyped_storage()
        key = storage._cdata
        self._holders[key] -= 1
        if self._holders[key]:
            return
        del self._holders[key]
        if key in self._held_copies:
            self._held_copies.discard(key)
            self.copies -= storage.nbytes()
        else:
            self.now -= storage.nbytes()
