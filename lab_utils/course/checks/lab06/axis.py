"""The axis of lab 06: every collective is allowed, none may be dropped unwaited, and what a
transfer itself allocates is not the answer's."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ....i18n import t
from ....layout.wire import wire_bytes
from ....parallel.comm import Axis, Pending
from ....parallel.ledger import Call
from ..ranks import BrokenRule
from ..transfers import Transfers
from ..watch import Watch
from ..watched import MOVES, WatchedAxis


class _Handed(Pending):
    """Handed out in the place of a Pending: dropped without a wait, it lets the transfer end, or
    the next free would end the process."""

    def __init__(
        self, pending: Pending, axis: ShardingAxis, number: int, whole: Tensor, references: int
    ) -> None:
        super().__init__()
        self._pending, self._axis, self._number = pending, axis, number
        self._storage, self._references = weakref.ref(whole.untyped_storage()), references

    def wait(self) -> None:
        self._axis.waited.add(self._number)
        with self._axis.apart():
            self._pending.wait()
        self._pending._works = ()  # a work keeps its buffers
        storage, latest = self._storage(), time.perf_counter() + 0.02
        while (
            storage is not None
            and references_to(storage) > self._references
            and time.perf_counter() < latest
        ):
            # gloo's thread lets go a little later: what is alive must not depend on when
            time.sleep(0.0002)

    def __del__(self) -> None:
        for work in self._pending._works:
            work.wait()


class ShardingAxis(WatchedAxis):
    """The real axis; a reduce-scatter that was dropped without having been waited for is found
    before the next transfer hangs on it.

    `waited` has the numbers, in `sent`, of what was waited for; `apart()` is entered while a
    transfer allocates.
    """

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis, MOVES)
        self.waited: set[int] = set()
        self._handed: dict[int, weakref.ref[Pending]] = {}
        self._watch: Watch | None = None

    def begin_step(self, watch: Watch) -> None:
        """Count from here on; `watch` is the case's."""
        self.begin()
        self.waited.clear()
        self._handed.clear()
        self._watch = watch

    def apart(self) -> AbstractContextManager:
        """Inside, what is made is the check's."""
        return nullcontext() if self._watch is None else self._watch.ignoring()

    def all_reduce(
        self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = ""
    ) -> Pending:
        issue = super().all_reduce
        return self._hand_out(
            tensor, lambda: issue(tensor, purpose=purpose, reduction=reduction, label=label)
        )

    def all_gather(self, whole: Tensor, *, purpose: str, label: str = "") -> Pending:
        issue = super().all_gather
        return self._hand_out(whole, lambda: issue(whole, purpose=purpose, label=label))

    def reduce_scatter(
        self, whole: Tensor, *, purpose: str, label: str = ""
    ) -> tuple[Tensor, Pending]:
        issue, parts = super().reduce_scatter, list[Tensor]()

        def issued() -> Pending:
            mine, pending = issue(whole, purpose=purpose, label=label)
            parts.append(mine)
            return pending

        # `mine` is a reference more
        handed = self._hand_out(whole, issued, references=1)
        return parts[0], handed

    def never_waited(self) -> list[str]:
        """Collectives that nobody waited for; a plain message says so itself."""
        return [
            sent.op
            for number, sent in enumerate(self.sent)
            if number not in self.waited
            and (number in self._handed or sent.call.wait_began is None)
        ]

    def anyone(self, failed: bool) -> bool:
        """Whether the verdict is clear on some rank: then nobody goes on."""
        flag = torch.tensor(float(failed))
        super().all_reduce(flag, purpose="control", reduction="max").wait()
        # the check's own is no part of the step
        self.sent.pop()
        return bool(flag)

    def _hand_out(
        self, whole: Tensor, issue: Callable[[], Pending], references: int = 0
    ) -> Pending:
        references += references_to(whole.untyped_storage())
        with self.apart():
            pending = issue()
        number = len(self.sent) - 1
        handed = _Handed(pending, self, number, whole, references)
        self._handed[number] = weakref.ref(handed)
        return handed

    def _open(self, op: str, purpose: str, tensor: Tensor, label: str) -> Call:
        if self._watch is not None:
            self._watch.must_see()
        for number, handed in self._handed.items():
            dropped = handed() is None and number not in self.waited
            if dropped and self.sent[number].op == "reduce_scatter":
                raise BrokenRule("never-waited", *never_waited(["reduce_scatter"]))
        return super()._open(op, purpose, tensor, label)


def never_waited(ops: Sequence[str]) -> tuple[str, str]:
    """What was expected and what came, where `ops` were not waited for."""
    return (
        t(
            "every collective is waited for before its result is used.",
            "使用结果之前，先等待每一次集合通信。",
        ),
        t(
            f"nobody waited for {', '.join(ops)}: the numbers may not be there yet.",
            f"始终没有等待 {'、'.join(ops)}：结果可能还没有到。",
        ),
    )


def references_to(storage: torch.UntypedStorage) -> int:
    """Tensors and others, in Python or below it, that hold the storage."""
    return torch._C._storage_Use_Count(storage._cdata)


def went_out(transfers: Transfers, ranks: int) -> int:
    """Bytes that left this one of `ranks`, as torch.distributed was asked for them; any operator
    that no axis of ours calls counts as all of what it was given."""
    total = 0
    for op, handed_over in transfers.bytes.items():
        if op == "allreduce":
            total += wire_bytes("all_reduce", handed_over, ranks)
        elif op in ("_allgather_base", "all_gather_single"):  # of the whole and of the shard
            total += wire_bytes("all_gather", handed_over * ranks // (ranks + 1), ranks)
        elif op != "recv":
            total += handed_over
    return total
