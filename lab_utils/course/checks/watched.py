"""The axis that a check hands out: the real one, which lets through what the exercise allows and
keeps a record that the answer does not write."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from torch import Tensor

from ...i18n import t
from ...layout.wire import wire_bytes
from ...parallel.comm import Axis
from ...parallel.ledger import Call, Ledger
from .ranks import BrokenRule

MOVES = (
    "all_reduce",
    "broadcast",
    "all_gather",
    "reduce_scatter",
    "ring_all_reduce",
    "send",
    "receive",
    "exchange",
)


@dataclass
class Sent:
    """One collective or message as the axis saw it; bytes are those of the tensor handed over, and
    `call` is the entry in the answer's ledger, which the answer may have written into."""

    op: str
    bytes: int
    wire_bytes: int
    call: Call


class WatchedAxis(Axis):
    """`axis`, on which only the methods in `allows` move anything; the others break the rule
    `rule`.

    `sent` is what the check believes. `ledger` is the answer's own: a fresh one, which may be read,
    cleared and scribbled in without harm.
    """

    def __init__(self, axis: Axis, allows: Collection[str], rule: str = "only-axis") -> None:
        super().__init__(axis.name, axis.ranks, axis.rank, axis.group, Ledger())
        self.sent: list[Sent] = []
        self._allows, self._rule = tuple(allows), rule
        for name in set(MOVES) - set(allows):
            setattr(self, name, self._forbidden)

    def begin(self) -> None:
        """Forget what was sent: another case, or another step."""
        self.sent.clear()
        self.ledger.clear()

    def only(self) -> str:
        """What the exercise expects, in words."""
        names = t(", ", "、").join(f"axis.{name}" for name in self._allows)
        return t(f"only {names} moves data.", f"只能用 {names} 传输数据。")

    def _forbidden(self, *_: Any, **__: Any) -> NoReturn:
        came = t("the code calls another transfer of the axis.", "代码调用了 axis 的其他通信。")
        raise BrokenRule(self._rule, self.only(), came)

    def _open(self, op: str, purpose: str, tensor: Tensor, label: str) -> Call:
        call = super()._open(op, purpose, tensor, label)
        payload = tensor.nbytes
        self.sent.append(Sent(op, payload, wire_bytes(op, payload, self.size), call))
        return call
