"""Bytes, counted on live storages: what is held between steps, and what is saved for the backward pass."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import torch
from torch import Tensor, nn


def storage_bytes(tensors: Iterable[Tensor], seen: set[int] | None = None) -> int:
    """Bytes of the distinct storages behind `tensors`; storages already in `seen` count 0, new ones are added to it."""
    seen = set() if seen is None else seen
    total = 0
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage._cdata not in seen:
            seen.add(storage._cdata)
            total += storage.nbytes()
    return total


def model_state_bytes(model: nn.Module, optimizer: torch.optim.Optimizer, buffers: Iterable[Tensor]) -> dict[str, int]:
    """Bytes of parameters, gradients and optimizer states as they are now, and of communication `buffers` beyond them.

    Gradients that are views of a bucket count as gradients, with the whole bucket; only what no gradient lives in
    counts under "buckets".
    """
    seen: set[int] = set()
    states = (x for state in optimizer.state.values() for x in state.values() if isinstance(x, Tensor))
    return {
        "parameters": storage_bytes(model.parameters(), seen),
        "gradients": storage_bytes((p.grad for p in model.parameters() if p.grad is not None), seen),
        "optimizer": storage_bytes(states, seen),
        "buckets": storage_bytes(buffers, seen),
    }


class _Saved:
    """A tensor that the autograd graph holds; when the graph lets go of it, the meter is told."""

    def __init__(self, tensor: Tensor, meter: SavedActivations) -> None:
        self.tensor, self.meter = tensor, meter
        meter._hold(tensor)

    def __del__(self) -> None:
        self.meter._release(self.tensor)


class SavedActivations:
    """Context in which forward passes run: `peak` is the most bytes ever saved for backward at one moment.

    Storages are counted once however many tensors share them; parameters and buffers of `model` are left out.
    """

    def __init__(self, model: nn.Module) -> None:
        self._excluded = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers())}
        self._holders: dict[int, int] = {}
        self.now = self.peak = 0
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda held: held.tensor if isinstance(held, _Saved) else held)

    def __enter__(self) -> SavedActivations:
        self._hooks.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._hooks.__exit__(kind, error, trace)

    def _pack(self, tensor: Tensor) -> _Saved | Tensor:
        return tensor if tensor.untyped_storage()._cdata in self._excluded else _Saved(tensor, self)

    def _hold(self, tensor: Tensor) -> None:
        key = tensor.untyped_storage()._cdata
        if key not in self._holders:
            self._holders[key] = 0
            self.now += tensor.untyped_storage().nbytes()
            self.peak = max(self.peak, self.now)
        self._holders[key] += 1

    def _release(self, tensor: Tensor) -> None:
        key = tensor.untyped_storage()._cdata
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self.now -= tensor.untyped_storage().nbytes()
