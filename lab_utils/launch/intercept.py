"""Has every transfer that Python starts written into the flight record, at the one place that all
of them pass.

All functions of torch.distributed end in a method of ProcessGroup and wait in Work.wait, whoever
imported them from where; so these are wrapped, and the making of groups, where ranks meet, too.
What C++ starts by itself (DistributedDataParallel's reducer, functional collectives) stays unseen.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .record import ANYONE, GROUPS, Call, Channel, Place, Recorder


class _Method(NamedTuple):
    op: str  # as torch.distributed spells it
    # the argument whose shapes all ranks must agree on: a list may hold different ones
    same: int | None = None
    options: tuple[str, ...] = ()  # of "reduceOp", "rootRank": what else they must agree on


_SUM = ("reduceOp",)
_METHODS = {
    "allreduce": _Method("all_reduce", 0, _SUM),
    "allreduce_coalesced": _Method("all_reduce", 0, _SUM),
    "broadcast": _Method("broadcast", 0, ("rootRank",)),
    "reduce": _Method("reduce", 0, ("reduceOp", "rootRank")),
    "allgather": _Method("all_gather", 0),
    "allgather_coalesced": _Method("all_gather", 1),
    "_allgather_base": _Method("all_gather_into_tensor", 1),
    "all_gather_single": _Method("all_gather_into_tensor", 1),
    "allgather_into_tensor_coalesced": _Method("all_gather_into_tensor", 1),
    "all_gather_single_coalesced": _Method("all_gather_into_tensor", 1),
    "reduce_scatter": _Method("reduce_scatter", 1, _SUM),
    "_reduce_scatter_base": _Method("reduce_scatter_tensor", 0, _SUM),
    "reduce_scatter_single": _Method("reduce_scatter_tensor", 0, _SUM),
    "reduce_scatter_tensor_coalesced": _Method("reduce_scatter_tensor", 0, _SUM),
    "reduce_scatter_single_coalesced": _Method("reduce_scatter_tensor", 0, _SUM),
    "alltoall": _Method("all_to_all"),
    "alltoall_base": _Method("all_to_all_single"),
    "all_to_all_single": _Method("all_to_all_single"),
    "gather": _Method("gather", 1, ("rootRank",)),
    "scatter": _Method("scatter", 0, ("rootRank",)),
    "barrier": _Method("barrier"),
    "monitored_barrier": _Method("monitored_barrier"),
}


def install(recorder: Recorder) -> None:
    """Wrap this process's torch.distributed so that `recorder` hears of every call and every wait.
    Once per process."""
    scribe = _Scribe(recorder)
    for name, method in _METHODS.items():
        # spellings differ between releases of torch
        if hasattr(dist.ProcessGroup, name):
            _wrap(recorder, scribe, name, functools.partial(scribe.collective, method))
    for name in ("send", "recv", "recv_anysource"):
        _wrap(recorder, scribe, name, functools.partial(scribe.p2p, name))

    wait, new_group = dist.Work.wait, distributed_c10d._new_group_with_tag

    parameters = inspect.signature(new_group)

    @functools.wraps(new_group)
    def recorded_new_group(ranks: list[int] | None = None, *args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(ranks, *args, **kwargs).arguments
        if not given.get("use_local_synchronization"):
            scribe.group_in_order(ranks)
        before = recorder.inside(scribe.new_group(ranks))  # its members wait for each other
        try:
            return new_group(ranks, *args, **kwargs)
        finally:
            recorder.inside(before)

    @functools.wraps(wait)
    def recorded_wait(work: dist.Work, *args: Any, **kwargs: Any) -> Any:
        place = scribe.places.get(work)
        before = recorder.inside(place)
        try:
            return wait(work, *args, **kwargs)
        finally:
            recorder.inside(before)

    dist.Work.wait, distributed_c10d._new_group_with_tag = recorded_wait, recorded_new_group


def _wrap(
    recorder: Recorder, scribe: _Scribe, name: str, write: Callable[..., Place | None]
) -> None:
    call = getattr(dist.ProcessGroup, name)

    @functools.wraps(call)
    def recorded(group: dist.ProcessGroup, *args: Any, **kwargs: Any) -> Any:
        place = write(group, args, kwargs)
        # the call itself may wait, too: NCCL connects its peers in the first one
        before = recorder.inside(place)
        try:
            work = call(group, *args, **kwargs)
        finally:
            recorder.inside(before)
        if work is not None and place is not None:
            scribe.places[work] = place
        return work

    setattr(dist.ProcessGroup, name, recorded)


class _Scribe:
    """Turns a call's arguments into words of the record, and remembers which Work belongs to which
    call."""

    def __init__(self, recorder: Recorder) -> None:
        self.places: WeakKeyDictionary[dist.Work, Place] = WeakKeyDictionary()
        self._recorder = recorder
        self._words: dict[Any, int] = {}
        self._members: dict[str, tuple[int, ...]] = {}

    def collective(
        self, method: _Method, group: dist.ProcessGroup, args: tuple, kwargs: dict
    ) -> Place:
        members = self._ranks(group)
        options = args[-1] if args else kwargs.get("opts")
        same = None if method.same is None or len(args) <= method.same else args[method.same]
        reduce = getattr(options, "reduceOp", None) if "reduceOp" in method.options else None
        root = (
            members[options.rootRank]
            if "rootRank" in method.options and hasattr(options, "rootRank")
            else None
        )
        key = (method.op, None if reduce is None else reduce.op, _shape_and_dtype(same), root)
        word = self._words.get(key)
        if word is None:
            shape, dtype = _spelled(key[2])
            spelled = Call(method.op, reduce and reduce.op.name.lower(), dtype, shape, root)
            word = self._words[key] = self._recorder.word(spelled)
        return self._recorder.called(self._channel(group.group_name, members), word)

    def p2p(self, op: str, group: dist.ProcessGroup, args: tuple, kwargs: dict) -> Place | None:
        tensors, *peer, tag = args
        members = self._ranks(group)
        me, other = members[group.rank()], members[peer[0]] if peer else ANYONE
        if me == other:
            return None
        key = (op, _shape_and_dtype(tensors))
        word = self._words.get(key)
        if word is None:
            shape, dtype = _spelled(key[1])
            word = self._words[key] = self._recorder.word(Call(op, None, dtype, shape))
        way = (me, other) if op == "send" else (other, me)
        return self._recorder.called(
            self._channel(f"{group.group_name}:{tag}", way, p2p=True), word
        )

    def group_in_order(self, ranks: list[int] | None) -> None:
        """Groups are told apart by counting, so all ranks must make all of them in one order."""
        world = range(dist.get_world_size())
        word = self._recorder.word(Call("new_group", shape=tuple(sorted(ranks or world))))
        self._recorder.called(self._channel(GROUPS, tuple(world)), word)

    def new_group(self, ranks: list[int] | None) -> Place | None:
        members = tuple(sorted(ranks or range(dist.get_world_size())))
        if dist.get_rank() not in members:
            return None
        word = self._recorder.word(Call("new_group", shape=members))
        return self._recorder.called(self._channel("new_group", members), word)

    def _channel(self, name: str, ranks: tuple[int, ...], p2p: bool = False) -> int:
        key = (name, ranks)
        word = self._words.get(key)
        if word is None:
            word = self._words[key] = self._recorder.word(Channel(name, ranks, p2p))
        return word

    def _ranks(self, group: dist.ProcessGroup) -> tuple[int, ...]:
        name = group.group_name
        members = self._members.get(name)
        if members is None:
            members = self._members[name] = tuple(dist.get_process_group_ranks(group))
        return members


def _shape_and_dtype(same: Any) -> tuple | None:
    """A key that costs little: of a tensor, of a list of tensors, or of a list in a list; None for
    anything else."""
    if isinstance(same, list) and len(same) == 1:
        same = same[0]
    if isinstance(same, torch.Tensor):
        return same.shape, same.dtype
    return (
        (tuple(x.shape for x in same), same[0].dtype) if isinstance(same, list) and same else None
    )


def _spelled(key: tuple | None) -> tuple[tuple | None, str | None]:
    if key is None:
        return None, None
    shape, dtype = key
    plain = tuple(tuple(s) if isinstance(s, torch.Size) else int(s) for s in shape)
    return plain, str(dtype).removeprefix("torch.")
