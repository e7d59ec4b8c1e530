"""FLOPs, counted on the operations that really ran (torch's own counter, taught the CPU's fused attention)."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

_aten = torch.ops.aten


def _attention(q: Any, k: Any, *rest: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Two matrix products, causal attention counted whole; shapes (b, heads, s, d)."""
    b, heads, s, d = q
    return 2 * 2 * b * heads * s * k[2] * d


def _attention_backward(grad: Any, q: Any, k: Any, *rest: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Five: QKᵀ computed again, and the gradients of scores, q, k and v."""
    return 5 * _attention(q, k) // 2


_CPU_ATTENTION = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}


class FlopMeter:
    """Context that counts: `hardware` is everything that ran, `model` leaves out what fused attention computes again."""

    def __init__(self) -> None:
        self._counter = FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION)

    def __enter__(self) -> FlopMeter:
        self._counter.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._counter.__exit__(kind, error, trace)

    @property
    def hardware(self) -> int:
        """FLOPs of everything that ran."""
        return self._counter.get_total_flops()

    @property
    def model(self) -> int:
        """FLOPs without the fused attention's second QKᵀ, one fifth of its backward."""
        by_op = self._counter.get_flop_counts()["Global"]
        return self.hardware - sum(n for op, n in by_op.items() if "attention" in str(op) and "backward" in str(op)) // 5
