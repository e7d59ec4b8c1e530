"""Exercise 3 on the ranks: a small model, a learner's synchroniser, and what each step really
did."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from ....config import ParallelConfig
from ....i18n import t
from ....parallel.mesh import Mesh
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..wrong import Look, look
from .held import HeldAxis

# of the gradients' global norm: what another order of adding may change
TOLERANCE = {"float32": 1e-6, "float64": 1e-12}


@dataclass(frozen=True)
class Case:
    """One model under one bucket size, for two steps; `widths` are those between its layers.

    `unused`: who leaves the middle branch out of the forward pass. `tied`: one layer is used twice.
    `criterion`: the one thing that this case is there to show.
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
        unused = {
            "": "",
            "everywhere": t(
                ", a branch unused on every rank", "、有一个分支在所有 rank 上都未用到"
            ),
            "one rank": t(", a branch unused on one rank", "、有一个分支在一个 rank 上未用到"),
        }[self.unused]
        return t(
            f"N = {self.ranks}, buckets of {self.bucket_bytes:,} bytes{unused}",
            f"N = {self.ranks}、每桶 {self.bucket_bytes:,} 字节{unused}",
        )


class Model(nn.Module):
    """Linear layers with tanh between, registered in the order of their use; after the first a tied
    one that runs twice, in the middle a branch that may stay out."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        torch.manual_seed(case.seed)
        self.layers, self.kinds = nn.ModuleList(), []
        pairs = list(zip(case.widths, case.widths[1:], strict=False))
        for number, (before, width) in enumerate(pairs):
            self._add("plain", before, width, case)
            if case.tied and number == 0:
                self._add("twice", width, width, case)
            if case.unused and number == (len(pairs) - 1) // 2:
                self._add("branch", width, width, case)

    def _add(self, kind: str, before: int, width: int, case: Case) -> None:
        self.layers.append(nn.Linear(before, width, dtype=getattr(torch, case.dtype)))
        self.kinds.append(kind)

    def forward(self, x: Tensor, with_branch: bool) -> Tensor:
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            if kind == "branch":
                x = x + layer(x.tanh()) if with_branch else x
            elif kind == "twice":
                x = layer(layer(x.tanh()).tanh())
            else:
                x = layer(x.tanh())
        return x


class Sent(NamedTuple):
    """One all-reduce. Times are seconds; never is infinity."""

    bytes: int
    issued: float
    waited: float


@dataclass
class Facts:
    """What one rank saw in one step; gradients are held against those of one process."""

    rank: int
    parameters: int
    gradients: int
    payload: int  # bytes of all gradients
    largest_parameter: int  # bytes
    look: Look  # of all gradients, end to end
    worst_name: str
    untouched: list[str]  # names of gradients that are still this rank's own
    calls: list[Sent]
    marks: list[float]  # when each gradient came to be
    stood_still: float  # when the wire was let go because nothing else went on
    own_gradients_left: bool  # what was handed over were this rank's gradients, each once
    first_call_holds_last_gradient: bool
    by_the_way: dict[str, int]

    @property
    def last_gradient(self) -> float:
        return max(self.marks)

    def trace(self) -> str:
        """Gradients, departures and waits in the order in which they happened."""
        events = [(at, "●") for at in self.marks]
        for number, call in enumerate(self.calls):
            events += [
                (at, f"{kind}{number}")
                for at, kind in ((call.issued, "▶"), (call.waited, "◼"))
                if at != float("inf")
            ]
        return " ".join(word for _, word in sorted(events))


def run(
    answer: Any,
    cases: Sequence[Case],
    patience: float,
    judge: Callable[[Case, list[Facts], int], object],
) -> None:
    """Two steps of each case; step s of case c is told as number 2c + s. When `judge` finds fault
    on some rank, all of them stop there."""
    plain = Mesh(ParallelConfig(dp=int(os.environ["WORLD_SIZE"])))["dp"]
    for number, case in enumerate(cases):
        begin_case(2 * number, patience, plain)
        axis, model = HeldAxis(plain), Model(case)
        _mark_gradients(model, axis)
        made = answer(model, axis, case.bucket_bytes)
        finish = getattr(made, "finish", made)
        for step in range(2):
            begin_case(2 * number + step, patience, plain)
            model.zero_grad()
            axis.begin()
            with Transfers() as transfers, axis.holding():
                _loss(model, case, step, axis.rank).backward()
                axis.release()
                finish()
            facts = _facts(model, case, step, axis, transfers)
            saw(2 * number + step, facts)
            clear = torch.tensor(float(judge(case, [facts], step) is not None))
            plain.all_reduce(clear, purpose="control", reduction="max").wait()
            if clear:
                return


def _mark_gradients(model: Model, axis: HeldAxis) -> None:
    """Before the learner's hooks: a mark is set, then they act."""
    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: axis.mark(name))


def _loss(model: Model, case: Case, step: int, rank: int) -> Tensor:
    """The mean over this rank's share of the batch; shares are equal."""
    generator = torch.Generator().manual_seed(10_000 * case.seed + 100 * step + rank)
    x, y = (
        torch.randn(4, case.widths[i], generator=generator, dtype=getattr(torch, case.dtype))
        for i in (0, -1)
    )
    return (
        (
            model(
                x,
                with_branch=case.unused != "everywhere"
                and not (case.unused == "one rank" and rank == 1),
            )
            - y
        )
        .square()
        .mean()
    )


@functools.cache
def _alone(case: Case, step: int, ranks: tuple[int, ...]) -> dict[str, Tensor]:
    """The gradients of the mean loss of `ranks`, by one process, with no synchroniser near."""
    model = Model(case)
    (sum(_loss(model, case, step, rank) for rank in ranks) / len(ranks)).backward()
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }


def _facts(model: Model, case: Case, step: int, axis: HeldAxis, transfers: Transfers) -> Facts:
    right = _alone(case, step, tuple(range(case.ranks)))
    own = _alone(case, step, (axis.rank,))
    came = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }
    looks = {name: look(came[name], right[name], 0.0).off for name in right}
    untouched = [
        name
        for name in right
        if not torch.allclose(own[name], right[name], rtol=1e-3, atol=0)
        and any(
            torch.allclose(came[name], own[name] * scale, rtol=1e-5)
            for scale in (1, 1 / case.ranks)
        )
    ]
    bytes_of = [p.numel() * p.element_size() for p in model.parameters()]
    handed = [departure.content for departure in axis.departures]
    count = {
        op: n for op, n in transfers.count.items() if n != (len(handed) if op == "allreduce" else 0)
    }
    return Facts(
        rank=axis.rank,
        parameters=sum(p.numel() for p in model.parameters()),
        gradients=len(right),
        payload=sum(bytes_of),
        largest_parameter=max(bytes_of),
        look=look(_flat(came), _flat(right), TOLERANCE[case.dtype]),
        worst_name=max(looks, key=looks.__getitem__),
        untouched=untouched,
        calls=[Sent(d.content.nbytes, d.issued, d.waited) for d in axis.departures],
        marks=[at for at, _ in axis.marks],
        stood_still=axis.stood_still,
        own_gradients_left=_same_numbers(handed, _flat(own)),
        first_call_holds_last_gradient=any(
            _holds(
                handed[0] if handed else torch.empty(0), own[axis.marks[-1][1]].flatten() * scale
            )
            for scale in (1, 1 / case.ranks)
        ),
        by_the_way=count,
    )


def _flat(gradients: dict[str, Tensor]) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients.values()])


def _same_numbers(buffers: Sequence[Tensor], numbers: Tensor) -> bool:
    """Whether the buffers hold `numbers`, or all of them times one factor, in any order."""
    if sum(map(len, buffers)) != len(numbers) or len({b.dtype for b in buffers}) > 1:
        return False
    whole = torch.cat(list(buffers))
    factor = whole.norm() / numbers.norm()
    return torch.allclose(
        whole.sort().values, (numbers * factor).sort().values, rtol=1e-4, atol=1e-6 * factor.item()
    )


def _holds(buffer: Tensor, piece: Tensor) -> bool:
    """Whether `piece` stands somewhere in `buffer`, one after the other."""
    return len(buffer) >= len(piece) and bool(
        torch.isclose(buffer.unfold(0, len(piece), 1), piece, rtol=1e-5).all(1).any()
    )


def draw(random: Random) -> list[Case]:
    """Models of random depth and widths; a tied layer; a branch that stays out on every rank, and
    on one, where whoever sends buckets as they get full sends them in another order."""
    cases = []
    for n in (3, 4):
        dtype, size = random.choice([("float32", 4), ("float64", 8)])
        for kind in (
            {},
            {"tied": True},
            {"unused": "everywhere", "criterion": "unused"},
            {"unused": "one rank", "criterion": "unused"},
        ):
            widths = tuple(random.randint(5, 10) for _ in range(random.randint(7, 10)))
            limit, seed = random.randint(100, 160) * size, random.randint(1, 10**6)
            cases.append(Case(n, widths, limit, dtype=dtype, seed=seed, **kind))
    return [*cases, Case(4, widths[:3], 10**6, criterion="one-bucket", seed=seed)]
