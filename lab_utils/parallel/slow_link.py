"""A slow wire, simulated: the sum is right at once, but nobody may use it before the wire would
have carried it.

On a few cores the ranks' computing and their messages fight for the same processors, so overlap
cannot be seen on the clock. Waiting for a simulated wire costs no processor: what is hidden behind
computing really disappears.
"""

from __future__ import annotations

import time

from torch import Tensor

from .comm import Axis, Pending


class SlowLink(Axis):
    """`axis` with a wire that carries `bytes_per_second` from each rank, one message after the
    other."""

    def __init__(self, axis: Axis, bytes_per_second: float) -> None:
        super().__init__(axis.name, axis.ranks, axis.rank, axis.group, axis.ledger)
        self.bytes_per_second, self._free_at = bytes_per_second, 0.0

    def all_reduce(
        self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = ""
    ) -> Pending:
        """As on `axis`, but the result counts as arrived only when its wire bytes would be
        through."""
        pending = super().all_reduce(tensor, purpose=purpose, reduction=reduction, label=label)
        if self.size == 1:
            return pending
        call = self.ledger.calls[-1]
        self._free_at = max(self._free_at, call.issued) + call.wire_bytes / self.bytes_per_second
        return _Delayed(pending, self._free_at)


class _Delayed(Pending):
    """A pending sum that arrives at `arrives` (seconds of time.perf_counter) or later."""

    def __init__(self, pending: Pending, arrives: float) -> None:
        super().__init__()
        self._call, self._works, self.arrives = pending._call, pending._works, arrives

    def _block(self) -> None:
        super()._block()
        time.sleep(max(0.0, self.arrives - time.perf_counter()))
        self._call.finished = max(self.arrives, self._call.finished or 0.0)
