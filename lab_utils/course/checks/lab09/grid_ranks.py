"""Exercise 4 on the ranks: the groups that an answer is given, what it sends over which of them,
and what it made of its gradients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import distributed_c10d

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.mesh import Mesh
from ..ranks import BrokenRule, begin_case, saw
from ..transfers import Transfers, _tensors
from ..wrong import Look, look
from .block import NAMES, Case, network, right

TOLERANCE = 1e-10  # of float64 sums in another order
SMALL = 16  # bytes that may go anywhere: a loss, a count
Grid = dict[str, tuple[list[int], dist.ProcessGroup]]


@dataclass
class Facts:
    """One rank: the loss that it returned, how its gradients look (None: there is none), by block
    and name, and what it handed over along each axis."""

    loss: float | None
    looks: list[dict[str, Look | None]]
    bytes: dict[str, int]
    norm: float


class Conversations(Transfers):
    """Adds up `moved[axis]`, the bytes handed over along each axis, and stops at once what goes to
    anybody else."""

    def __init__(self, case: Case, rank: int) -> None:
        super().__init__()
        self.moved = Counter(dict.fromkeys(case.order, 0))
        self._case, self._rank = case, rank
        line = case.right(rank, "pp")
        here = line.index(rank)
        self._beside = line[max(here - 1, 0) : here] + line[here + 1 : here + 2]
        self._axes = {tuple(sorted(case.right(rank, axis))): axis for axis in case.order}

    def _add(self, op: str, args: Iterable[Any]) -> None:
        args = list(args)
        super()._add(op, args)
        members, nbytes = _members(args), sum(tensor.nbytes for tensor in _tensors(args))
        if nbytes <= SMALL or members == (self._rank,):
            return
        if op in ("send", "recv") and type(args[2]) is int and members:
            self._message(op, members[args[2]], nbytes)
        elif members in self._axes:
            self.moved[self._axes[members]] += nbytes
        else:
            self._stranger(op, members, nbytes)

    def _message(self, op: str, peer: int, nbytes: int) -> None:
        if peer not in self._beside:
            names = t(" and ", " 和 ").join(map(str, self._beside)) or t("nobody", "无")
            raise BrokenRule(
                "step.neighbour",
                t(
                    f"rank {self._rank} exchanges activations with its neighbours on pp: {names}.",
                    f"rank {self._rank} 只与 pp 轴上的邻居交换激活值：{names}。",
                ),
                t(f"{op} with rank {peer}.", f"{op} 的对方是 rank {peer}。"),
            )
        if nbytes != self._case.message:
            raise BrokenRule(
                "step.message",
                t(
                    f"a message holds this share's activations, or their gradient:"
                    f" {self._case.message} bytes.",
                    f"一条消息就是这部分数据的激活值或其梯度：{self._case.message} 字节。",
                ),
                t(f"{op} of {nbytes} bytes.", f"{op} 了 {nbytes} 字节。"),
            )
        self.moved["pp"] += nbytes if op == "send" else 0

    def _stranger(self, op: str, members: tuple[int, ...], nbytes: int) -> None:
        who = t(f"ranks {list(members)}", f"rank {list(members)}")
        if len(members) == self._case.ranks:
            who = t(f"all {len(members)} ranks", f"全部 {len(members)} 个 rank")
        raise BrokenRule(
            "step.world",
            t(
                "what is large moves along one axis of the grid, in its group.",
                "大的张量只沿网格的一个轴、在该轴的组里传输。",
            ),
            t(
                f"rank {self._rank} hands {nbytes} bytes to {op} over {who}.",
                f"rank {self._rank} 在 {who} 上用 {op} 传输 {nbytes} 字节。",
            ),
        )


def _members(args: Sequence[Any]) -> tuple[int, ...]:
    """The ranks of the process group among a transfer's arguments; none if there is no group."""
    for arg in args:
        if isinstance(arg, torch.ScriptObject):
            try:
                arg = dist.ProcessGroup.unbox(arg)
            except RuntimeError:  # another class of torch's, as a ReduceOp
                continue
        elif isinstance(arg, str):
            try:
                arg = distributed_c10d._resolve_process_group(arg)
            except (LookupError, RuntimeError):  # a name of something else, as "sum"
                continue
        if isinstance(arg, dist.ProcessGroup):
            return tuple(sorted(dist.get_process_group_ranks(arg)))
    return ()


def run(answer: Callable[..., Any], cases: Sequence[Case], patience: float) -> None:
    """One step of each case, and its gradients."""
    plain = Mesh(ParallelConfig(dp=dist.get_world_size()))["dp"]
    for number, case in enumerate(cases):
        grid = _grid(case, plain.rank)
        begin_case(number, patience, plain)
        saw(number, _examine(answer, case, plain.rank, grid))


_made: dict[tuple[int, ...], dist.ProcessGroup] = {}


def _grid(case: Case, rank: int) -> Grid:
    """What exercise 2 makes, and the ranks of it; groups are kept for the launch's other cases."""
    grid = {}
    for axis in case.order:
        for ranks in (case.right(one, axis) for one in range(case.ranks)):
            if tuple(ranks) not in _made:
                _made[tuple(ranks)] = dist.new_group(ranks)
            if rank in ranks:
                grid[axis] = ranks, _made[tuple(ranks)]
    return dict(sorted(grid.items()))


def _examine(answer: Callable[..., Any], case: Case, rank: int, grid: Grid) -> Facts:
    numbers = case.stage(rank)
    blocks = [tuple(w.requires_grad_() for w in case.cut(network(case)[i], rank)) for i in numbers]
    x, y = case.share(rank)
    given = [list(block) for block in blocks]
    with _no_new_groups(), Conversations(case, rank) as seen:
        loss = answer(blocks, x, y, {axis: (list(r), g) for axis, (r, g) in grid.items()})
    looks = [_looks(block, i, case, rank) for i, block in zip(numbers, given, strict=True)]
    gradients = [w.grad for block in given for w in block if isinstance(w.grad, Tensor)]
    norm = sum(g.double().square().sum().item() for g in gradients) ** 0.5
    return Facts(_number(loss), looks, dict(seen.moved), norm)


@contextmanager
def _no_new_groups() -> Iterator[None]:
    """A group that not all ranks make would hang before anybody could say why."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise BrokenRule(
            "step.world",
            t("the groups in `grid` are all that it takes.", "`grid` 里的组就够用了。"),
            t("it makes another group.", "代码又创建了组。"),
        )

    make = distributed_c10d._new_group_with_tag
    distributed_c10d._new_group_with_tag = refuse
    try:
        yield
    finally:
        distributed_c10d._new_group_with_tag = make


def _number(loss: Any) -> float | None:
    try:
        value = float(loss)
    except (TypeError, ValueError, RuntimeError):
        return None
    return value if isfinite(value) else None


def _looks(block: Sequence[Tensor], i: int, case: Case, rank: int) -> dict[str, Look | None]:
    """Each gradient of one block held against one process's, and against the dp shares' own."""
    wanted = case.cut(right(case).gradients[i], rank)
    shares = [case.cut(right(case, n).gradients[i], rank) for n in range(case.flags()["dp"])]
    return {
        name: None
        if weight.grad is None
        else look(weight.grad, wanted[k], TOLERANCE, own=[share[k] for share in shares])
        for k, (name, weight) in enumerate(zip(NAMES, block, strict=True))
    }
