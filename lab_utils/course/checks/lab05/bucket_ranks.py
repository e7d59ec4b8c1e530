"""Exercise 3 on the ranks: a small model, a learner's synchroniser, and what each step really did."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.comm import Axis, Pending
from ....parallel.mesh import Mesh
from ..ranks import BrokenRule, Transfers, begin_case, saw


@dataclass(frozen=True)
class Case:
    """One model under one bucket size, for two steps; `widths` are those between its layers.

    `unused`: who leaves the middle branch out of the forward pass. `tied`: one layer is used twice. `criterion`: the
    one thing that this case is there to show.
    """

    ranks: int
    widths: tuple[int, ...]
    bucket_bytes: int
    unused: Literal["", "everywhere", "one rank"] = ""
    tied: bool = False
    dtype: str = "float32"
    criterion: str | None = None
    seed: int = 0

    def __str__(self) -> str:
        unused = {"": "", "everywhere": t(", a branch unused on every rank", "、有一个分支在所有 rank 上都未用到"),
                  "one rank": t(", a branch unused on one rank", "、有一个分支在一个 rank 上未用到")}[self.unused]  # fmt: skip
        return t(f"N = {self.ranks}, buckets of {self.bucket_bytes:,} bytes{unused}", f"N = {self.ranks}、每桶 {self.bucket_bytes:,} 字节{unused}")


class Model(nn.Module):
    """Linear layers with tanh between; after the first, a branch that may stay out, and a tied layer that runs twice."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        torch.manual_seed(case.seed)
        dtype = getattr(torch, case.dtype)
        pairs = list(zip(case.widths, case.widths[1:], strict=False))
        self.first = nn.Linear(*pairs[0], dtype=dtype)
        self.branch = nn.Linear(case.widths[1], case.widths[1], dtype=dtype) if case.unused else None
        self.twice = nn.Linear(case.widths[1], case.widths[1], dtype=dtype) if case.tied else None
        self.rest = nn.ModuleList(nn.Linear(*pair, dtype=dtype) for pair in pairs[1:])

    def forward(self, x: Tensor, with_branch: bool) -> Tensor:
        x = self.first(x).tanh()
        if self.branch is not None and with_branch:
            x = x + self.branch(x)
        if self.twice is not None:
            x = self.twice(self.twice(x).tanh())
        for layer in self.rest:
            x = layer(x.tanh())
        return x


class Sent(NamedTuple):
    """One all-reduce. Times are seconds; never is infinity."""

    bytes: int
    issued: float
    waited: float


@dataclass
class Facts:
    """What one rank saw in one step. Errors are shares of the global norm of the gradients that one process computes."""

    rank: int
    parameters: int
    gradients: int
    payload: int                       # bytes of all gradients
    largest_parameter: int             # bytes
    error: float
    worst_name: str
    ratio: float                       # the gradients are this many times the right ones,
    ratio_error: float                 # up to this
    untouched: list[str]               # names of gradients that are still this rank's own
    calls: list[Sent]
    marks: list[float]                 # when each gradient came to be
    first_wait: float                  # for any transfer, by whatever way
    first_call_holds_last_gradient: bool
    by_the_way: dict[str, int]

    @property
    def last_gradient(self) -> float:
        return max(self.marks)

    def trace(self) -> str:
        """Gradients, departures and waits in the order in which they happened."""
        events = [(at, "●") for at in self.marks]
        for number, call in enumerate(self.calls):
            events += [(at, f"{kind}{number}") for at, kind in ((call.issued, "▶"), (call.waited, "◼")) if at != float("inf")]
        return " ".join(word for _, word in sorted(events))


class BucketAxis(Axis):
    """The real axis; keeps a copy of what was handed to each all-reduce, and lets through nothing else."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis.name, axis.ranks, axis.rank, axis.group, axis.ledger)
        self.handed: list[Tensor] = []
        self.waits: list[float] = []

    @contextmanager
    def watching_waits(self) -> Iterator[None]:
        """Note each wait for a transfer, also one that goes past `Pending` and so past the ledger."""
        wait = dist.Work.wait

        def noted(work: dist.Work, *args: Any, **kwargs: Any) -> Any:
            self.waits.append(time.perf_counter())
            return wait(work, *args, **kwargs)

        dist.Work.wait = noted
        try:
            yield
        finally:
            dist.Work.wait = wait

    def all_reduce(self, tensor: Tensor, *, purpose: str, reduction: str = "sum", label: str = "") -> Pending:
        self.handed.append(tensor.detach().clone().flatten())
        return super().all_reduce(tensor, purpose=purpose, reduction=reduction, label=label)

    def _forbidden(self, *_: Any, **__: Any) -> Any:
        raise BrokenRule("buckets.only-axis", t("only axis.all_reduce moves data.", "只能用 axis.all_reduce 传输数据。"),
                         t("the code calls another transfer of the axis.", "代码调用了 axis 的其他通信。"))

    exchange = broadcast = all_gather = reduce_scatter = ring_all_reduce = _forbidden


def run_cases(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Two steps of each case; step s of case c is told as number 2c + s."""
    plain = Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"]
    axis = BucketAxis(plain)
    for number, case in enumerate(cases):
        begin_case(2 * number, patience, plain)
        model = Model(case)
        for name, parameter in model.named_parameters():     # before the learner's hooks: a mark is set, then they act
            parameter.register_post_accumulate_grad_hook(lambda _, name=name: axis.ledger.mark("gradient", name))
        made = answer(model, axis, case.bucket_bytes)
        finish = getattr(made, "finish", made)
        for step in range(2):
            begin_case(2 * number + step, patience, plain)
            model.zero_grad()
            axis.ledger.clear()
            axis.handed.clear()
            axis.waits.clear()
            with Transfers() as transfers, axis.watching_waits():
                _loss(model, case, step, axis.rank).backward()
                finish()
            saw(2 * number + step, _facts(model, case, step, axis, transfers))


def _loss(model: Model, case: Case, step: int, rank: int) -> Tensor:
    """The mean over this rank's share of the batch; shares are equal."""
    generator = torch.Generator().manual_seed(10_000 * case.seed + 100 * step + rank)
    x, y = (torch.randn(4, case.widths[i], generator=generator, dtype=getattr(torch, case.dtype)) for i in (0, -1))
    return (model(x, with_branch=case.unused != "everywhere" and not (case.unused == "one rank" and rank == 1)) - y).square().mean()


def _alone(case: Case, model: Model, step: int, ranks: Sequence[int]) -> dict[str, Tensor]:
    """The gradients of the mean loss of `ranks`, by one process, with no synchroniser near."""
    copy = Model(case)
    copy.load_state_dict(model.state_dict())
    (sum(_loss(copy, case, step, rank) for rank in ranks) / len(ranks)).backward()
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in copy.named_parameters()}


def _facts(model: Model, case: Case, step: int, axis: BucketAxis, transfers: Transfers) -> Facts:
    right, own = _alone(case, model, step, range(case.ranks)), _alone(case, model, step, [axis.rank])
    came = {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in model.named_parameters()}
    a, b = (torch.cat([grads[name].flatten() for name in right]) for grads in (came, right))
    ratio = (a @ b / (b @ b)).item()
    untouched = [name for name in right if not torch.allclose(own[name], right[name], rtol=1e-3, atol=0) and any(
        torch.allclose(came[name], own[name] * scale, rtol=1e-5) for scale in (1, 1 / case.ranks))]
    bytes_of = [p.numel() * p.element_size() for p in model.parameters()]
    marks = axis.ledger.marks
    handed = axis.handed[0] if axis.handed else torch.empty(0)
    count = {op: n for op, n in transfers.count.items() if n != (len(axis.handed) if op == "allreduce" else 0)}
    return Facts(
        rank=axis.rank, parameters=b.numel(), gradients=len(right), payload=sum(bytes_of), largest_parameter=max(bytes_of),
        error=((a - b).norm() / b.norm()).item(), worst_name=max(right, key=lambda name: (came[name] - right[name]).norm().item()),
        ratio=ratio, ratio_error=((a - ratio * b).norm() / (abs(ratio) * b.norm() + 1e-30)).item(), untouched=untouched,
        calls=list(_sent(axis)), marks=[at for at, _, _ in marks], first_wait=min(axis.waits, default=float("inf")),
        first_call_holds_last_gradient=any(_holds(handed, own[marks[-1][2]].flatten() * scale) for scale in (1, 1 / case.ranks)), by_the_way=count,
    )  # fmt: skip


def _sent(axis: Axis) -> Iterator[Sent]:
    for call in axis.ledger.calls:
        yield Sent(call.bytes, call.issued, float("inf") if call.wait_began is None else call.wait_began)


def _holds(buffer: Tensor, piece: Tensor) -> bool:
    """Whether `piece` stands somewhere in `buffer`, one after the other."""
    return len(buffer) >= len(piece) and bool(torch.isclose(buffer.unfold(0, len(piece), 1), piece, rtol=1e-5).all(1).any())
