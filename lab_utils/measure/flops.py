"""FLOPs, counted on the operations that really ran (torch's own counter, taught the CPU's fused
attention)."""

from __future__ import annotations

from contextlib import nullcontext
from types import TracebackType
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..parallel.recompute import observe_recomputation

_aten = torch.ops.aten


def _attention(q: Any, k: Any, *rest: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Two matrix products, causal attention counted whole; shapes (b, heads, s, d)."""
    b, heads, s, d = q
    return 2 * 2 * b * heads * s * k[2] * d


def _attention_backward(
    grad: Any, q: Any, k: Any, *rest: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Five: QKᵀ computed again, and the gradients of scores, q, k and v."""
    return 5 * _attention(q, k) // 2


_CPU_ATTENTION = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


class _NoModules(nullcontext):
    """In place of torch's tracker of modules: we count no module by itself, and its hooks forbid
    autograd.grad of a part of the graph, which is how torch's zero-bubble schedule goes back."""

    parents = ("Global",)

    def __exit__(self, *exception: object) -> None:  # the counter calls it with nothing
        pass


class FlopMeter:
    """Context that counts: `hardware` is everything that ran, `model` leaves out what ran a second
    time (recomputation, and the product that fused attention computes again)."""

    def __init__(self) -> None:
        self._counter = FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION)
        self._counter.mod_tracker = _NoModules()
        self._observing = observe_recomputation(self._recomputation)
        self._again = self._before = 0

    def __enter__(self) -> FlopMeter:
        self._counter.__enter__()
        self._observing.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._observing.__exit__(kind, error, trace)
        self._counter.__exit__(kind, error, trace)

    def _recomputation(self, begins: bool) -> None:
        if begins:
            self._before = self.hardware
        else:
            self._again += self.hardware - self._before

    def so_far(self) -> dict[str, int]:
        """Both counts at this moment."""
        return {"model": self.model, "hardware": self.hardware}

    @property
    def hardware(self) -> int:
        """FLOPs of everything that ran."""
        return self._counter.get_total_flops()

    @property
    def model(self) -> int:
        """FLOPs without recomputed passes and without the fused attention's second QKᵀ, one fifth
        of its backward."""
        by_op = self._counter.get_flop_counts()["Global"]
        fused = sum(
            n for op, n in by_op.items() if "attention" in str(op) and "backward" in str(op)
        )
        return self.hardware - self._again - fused // 5
