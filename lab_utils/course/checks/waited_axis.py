"""The axis for an answer that has to wait for what it sends: a transfer that nobody waited for is
found every time; and what must hold of any transfer."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...config import ParallelConfig
from ...i18n import t
from ...parallel.comm import Axis, Pending
from ...parallel.mesh import Mesh
from .transfers import Transfers
from .verdict import Failure
from .watched import WatchedAxis


class _Handed(Pending):
    """Handed out in the place of a Pending whose transfer is over; notes that it was waited for."""

    def __init__(self, axis: WaitedAxis, number: int) -> None:
        super().__init__()
        self._axis, self._number = axis, number

    def wait(self) -> None:
        self._axis.waited.add(self._number)


class WaitedAxis(WatchedAxis):
    """An axis whose transfers end before they return, so that one that nobody waited for is found
    every time and not only when the network is slow."""

    def __init__(self, axis: Axis, allows: Sequence[str]) -> None:
        super().__init__(axis, allows)
        self.waited: set[int] = set()
        for name in allows:
            setattr(self, name, self._over(getattr(super(), name)))

    def begin(self) -> None:
        """Another case, or another pass."""
        super().begin()
        self.waited.clear()

    def _over(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = method(*args, **kwargs)
            handed = _Handed(self, len(self.sent) - 1)
            if isinstance(returned, tuple):
                returned[1].wait()
                return returned[0], handed
            returned.wait()
            return handed

        return call


@dataclass
class Sent:
    """What one rank sent in a pass: payload and calls by op, calls that nobody waited for, and
    whether anything went around the axis."""

    bytes: dict[str, int]
    calls: dict[str, int]
    never_waited: list[str]
    around: bool


def waited_axis(*allows: str) -> tuple[Axis, WaitedAxis]:
    """An axis of all ranks, and the same for the answer."""
    plain = Mesh(ParallelConfig(tp=int(os.environ["WORLD_SIZE"])))["tp"]
    return plain, WaitedAxis(plain, allows)


def see(axis: WaitedAxis, transfers: Transfers) -> Sent:
    """What passed since `axis.begin()`; `transfers` has watched torch.distributed meanwhile."""
    found = Sent({}, {}, [], False)
    messages = 0
    for number, sent in enumerate(axis.sent):
        found.bytes[sent.op] = found.bytes.get(sent.op, 0) + sent.bytes
        found.calls[sent.op] = found.calls.get(sent.op, 0) + 1
        # ours is a ring of messages: sent and received in each of its steps
        messages += 2 * (axis.size - 1) if sent.op == "reduce_scatter" else 1
        if number not in axis.waited:
            found.never_waited.append(sent.op)
    found.around = sum(transfers.count.values()) > messages
    return found


def judge_sent(all_sent: Sequence[Sent]) -> Failure | None:
    """What must hold of transfers before any value can be trusted."""
    if any(sent.around for sent in all_sent):
        return Failure(
            "only-axis",
            t(
                "data moves through the axis, where it is counted.",
                "数据只通过 axis 传输，在那里计数。",
            ),
            t("data also moved by another way.", "还有数据走了别的途径。"),
        )
    waiting = sorted({op for sent in all_sent for op in sent.never_waited})
    if waiting:
        return Failure(
            "never-waited",
            t("every transfer is waited for.", "每次传输都要等待完成。"),
            t(
                f"nobody waited for a call of {', '.join(waiting)}: its numbers may not be there.",
                f"有一次 {'、'.join(waiting)} 没有等待：它的结果可能还没有到。",
            ),
        )
    return None
