"""Traffic of one step, summed up from the ledger of what was really handed to collectives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..layout.wire import wire_bytes
from ..parallel.comm import Axis
from ..parallel.ledger import Call
from ..parallel.mesh import AXES, Mesh
from ..report import Traffic


def summarize(calls: Iterable[Call], sizes: dict[str, int]) -> tuple[Traffic, ...]:
    """One entry per (op, axis, purpose), in the order of first use; `sizes` gives each axis's
    number of ranks.

    The payload is counted. Wire bytes are those of the messages where we send them ourselves
    (rings, point to point); for a library's collectives they are the ring's share of the payload
    (its sends cannot be seen from here, the test against the loopback interface holds them), taken
    of the sum, so that rounding to whole bytes happens once.
    """
    groups: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        groups.setdefault((call.op, call.axis, call.purpose), []).append(call)
    return tuple(
        Traffic(
            *key,
            calls=len(group),
            bytes=sum(c.bytes for c in group),
            wire_bytes=_on_the_wire(group, sizes[key[1]]),
        )
        for key, group in groups.items()
    )


def _on_the_wire(group: list[Call], ranks: int) -> int:
    by_library = sum(c.bytes for c in group if not c.messages_counted)
    return sum(c.wire_bytes for c in group if c.messages_counted) + wire_bytes(
        group[0].op, by_library, ranks
    )


class _Op(NamedTuple):
    """A dispatched collective: our word for it, and which argument is the unsharded tensor (or list
    of tensors).

    `shard`: that argument is one rank's part of it.
    """

    kind: str
    payload: str
    shard: bool = False


_COUNTED = {
    "c10d": {
        "allreduce_": _Op("all_reduce", "tensors"),
        "allreduce_coalesced_": _Op("all_reduce", "tensors"),
        "broadcast_": _Op("broadcast", "tensors"),
        "allgather_": _Op("all_gather", "output_tensors"),
        "allgather_coalesced_": _Op("all_gather", "output_lists"),
        "_allgather_base_": _Op("all_gather", "output_tensor"),
        "allgather_into_tensor_coalesced_": _Op("all_gather", "outputs"),
        "reduce_scatter_": _Op("reduce_scatter", "input_tensors"),
        "_reduce_scatter_base_": _Op("reduce_scatter", "input_tensor"),
        "reduce_scatter_tensor_coalesced_": _Op("reduce_scatter", "inputs"),
        "alltoall_": _Op("all_to_all", "input_tensors"),
        "alltoall_base_": _Op("all_to_all", "input"),
        "send": _Op("send", "tensors"),
    },
    "_c10d_functional": {
        "all_reduce": _Op("all_reduce", "input"),
        "all_reduce_": _Op("all_reduce", "input"),
        "all_reduce_coalesced": _Op("all_reduce", "inputs"),
        "all_reduce_coalesced_": _Op("all_reduce", "inputs"),
        "broadcast": _Op("broadcast", "input"),
        "broadcast_": _Op("broadcast", "input"),
        "all_gather_into_tensor": _Op("all_gather", "input", shard=True),
        "all_gather_into_tensor_out": _Op("all_gather", "input", shard=True),
        "all_gather_into_tensor_coalesced": _Op("all_gather", "inputs", shard=True),
        "reduce_scatter_tensor": _Op("reduce_scatter", "input"),
        "reduce_scatter_tensor_out": _Op("reduce_scatter", "input"),
        "reduce_scatter_tensor_coalesced": _Op("reduce_scatter", "inputs"),
        "all_to_all_single": _Op("all_to_all", "input"),
        "isend": _Op("send", "tensor"),
    },
}
_SENDS_NOTHING = {"recv_", "recv_any_source_", "irecv", "barrier", "monitored_barrier_"}


class OutsideCounter(TorchDispatchMode):
    """Counts every collective of a library that calls torch.distributed itself, from outside, into
    the mesh's ledger.

    The axis is found by the process group's ranks. The purpose is told by what can be seen: one
    element is control (a norm, a flag), and so are whole numbers; over dp what is gathered or
    broadcast is parameters, everything else gradients; over pp and tp activations travel, except
    that a sum over tp in one of the shapes `whole` is the gradient of a parameter that every tp
    rank holds whole but each saw with some of the tokens only. Raises RuntimeError for an operation
    that it cannot count and for a process group that is no axis, rather than counting too little.
    """

    def __init__(self, mesh: Mesh, whole: Collection[tuple[int, ...]] = ()) -> None:
        super().__init__()
        from torch.distributed.tensor import DTensor  # loaded for these runs only

        self._dtensor, self._ledger, self._purpose, self._whole = DTensor, mesh.ledger, "", whole
        self._axes = {tuple(mesh[name].ranks): mesh[name] for name in AXES if mesh[name].size > 1}

    @contextmanager
    def meaning(self, purpose: str) -> Iterator[None]:
        """Inside, whatever is sent is for `purpose`."""
        before, self._purpose = self._purpose, purpose
        try:
            yield
        finally:
            self._purpose = before

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if any(issubclass(kind, self._dtensor) for kind in types):
            # it takes itself apart first, and its collectives come by here again
            return NotImplemented
        room = getattr(func, "namespace", "")
        if room in _COUNTED:
            self._count(
                func,
                dict(zip((a.name for a in func._schema.arguments), args, strict=False))
                | (kwargs or {}),
            )
        return func(*args, **(kwargs or {}))

    def _count(self, func: Any, given: dict[str, Any]) -> None:
        name = func._opname
        if name in _SENDS_NOTHING or not given.keys() & {"process_group", "group_name"}:
            return
        op = _COUNTED[func.namespace].get(name)
        if op is None:
            raise RuntimeError(f"no rule for counting {func}")
        axis = self._axis(given)
        if axis is None:
            return
        tensors = list(_tensors(given[op.payload]))
        elements, payload = (
            sum(each)
            for each in zip(
                *((x.numel(), x.numel() * x.element_size()) for x in tensors), strict=True
            )
        )
        if op.shard:
            elements, payload = elements * axis.size, payload * axis.size
        gradient = (
            op.kind == "all_reduce" and axis.name == "tp" and tuple(tensors[0].shape) in self._whole
        )
        control = elements == 1 or not tensors[0].is_floating_point()
        purpose = self._purpose or (
            "gradient" if gradient else "control" if control else _usual_purpose(axis, op.kind)
        )
        self._ledger.open(
            op.kind, axis.name, purpose, payload, wire_bytes(op.kind, payload, axis.size)
        )

    def _axis(self, given: dict[str, Any]) -> Axis | None:
        """The axis of a call's process group; None for a group of one rank, where nothing
        travels."""
        if "process_group" in given:
            group = dist.ProcessGroup.unbox(given["process_group"])
        else:
            group = torch._C._distributed_c10d._resolve_process_group(given["group_name"])
        ranks = tuple(dist.get_process_group_ranks(group))
        if len(ranks) == 1:
            return None
        if ranks not in self._axes:
            raise RuntimeError(f"the process group of ranks {list(ranks)} is no axis of the mesh")
        return self._axes[ranks]


def _usual_purpose(axis: Axis, op: str) -> str:
    if axis.name == "dp":
        return "parameter" if op in ("all_gather", "broadcast") else "gradient"
    return "activation"


def _tensors(payload: Any) -> Iterator[Tensor]:
    if isinstance(payload, Tensor):
        yield payload
    else:
        for part in payload:
            yield from _tensors(part)
