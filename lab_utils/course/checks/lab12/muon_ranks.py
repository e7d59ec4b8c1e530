"""Exercise 3 on the ranks: what each of them multiplies, keeps and sends."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ....measure.memory import storage_bytes
from ....parallel.comm import Axis
from ....parallel.pending import Pending
from ..ranks import begin_case, saw
from ..transfers import Transfers
from ..waited_axis import Sent, WaitedAxis, see, waited_axis
from ..watch import Watch, watch_threads
from ..wrong import Look, look, worst
from .by_hand import ByHand
from .muon_rule import MISTAKES, STEPS, Case, weights

TOLERANCE = 1e-5  # of the way that a matrix moved; a norm + 1e-7 is as good as a norm
ALLOWS = ("all_reduce", "broadcast", "all_gather", "all_to_all", "all_to_all_parts")


class Products(TorchDispatchMode):
    """While it is entered, counts products of matrices by their sizes: `count[m, k, n]` of (m, k)
    with (k, n)."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[tuple[int, int, int]] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.name().partition("::")[2].partition(".")[0].rstrip("_")
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            a, b = [x for x in args if isinstance(x, Tensor)][-2:]
            batch = a.shape[0] if a.dim() == 3 else 1
            self.count[a.shape[-2], a.shape[-1], b.shape[-1]] += batch
        return func(*args, **(kwargs or {}))

    @property
    def flops(self) -> int:
        """Of all products."""
        return sum(2 * m * k * n * count for (m, k, n), count in self.count.items())


class OwnersAxis(WaitedAxis):
    """Collectives alone; parts of any size count as what really leaves for another rank."""

    def __init__(self, axis: Axis) -> None:
        super().__init__(axis, ALLOWS)
        self.pass_on = self._forbidden
        issue = self.all_to_all_parts

        def all_to_all_parts(
            outgoing: Tensor, leaving: Sequence[int], *rest: Any, **say: Any
        ) -> Pending:
            leaving = list(leaving)
            pending = issue(outgoing, leaving, *rest, **say)
            elements = sum(leaving) - leaving[self.rank]
            self.sent[-1].wire_bytes = elements * outgoing.element_size()
            return pending

        self.all_to_all_parts = all_to_all_parts


@dataclass
class Facts:
    """One rank after a step: how each parameter looks; the mistakes that would come to the same;
    whether each is what it was; a digest of all; sizes of products; FLOPs; bytes alive beyond
    weights and gradients (after the last step; else 0); what was sent, and how much of it left."""

    looks: list[Look]
    explained: list[str]
    old: list[bool]
    digest: str
    count: Counter[tuple[int, int, int]]
    flops: int
    kept: int
    sent: Sent
    wire: int

    def worst(self) -> tuple[int, Look]:
        """The parameter that is furthest off, and how."""
        return worst(self.looks)


Judge = Callable[[Case, list[Any], int], Any]


def run_cases(judge: Judge, answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Three steps for each case on this rank; all ranks stop where one of them finds fault."""
    watch_threads()
    plain, _ = waited_axis()
    axis = OwnersAxis(plain)
    for number, case in enumerate(cases):
        begin_case(STEPS * number, patience, plain)
        for step, facts in enumerate(_train(answer, case, axis)):
            # whoever is still in the answer's transfers is found here
            begin_case(STEPS * number + step, patience, plain)
            saw(STEPS * number + step, facts)
            flag = torch.tensor(float(judge(case, [facts], step) is not None))
            plain.all_reduce(flag, purpose="control", reduction="max").wait()
            if flag:
                return
            begin_case(STEPS * number + step + 1, patience)


def _train(answer: Any, case: Case, axis: OwnersAxis) -> Iterator[Facts]:
    for mistake in ("right", *MISTAKES):
        weights(case, mistake)  # what is there before the watch is not the answer's
    parameters = [nn.Parameter(w) for w in case.first()]
    watch = Watch()
    axis.begin()
    with ByHand(), watch:
        optimizer = answer(parameters, axis, case.lr, case.momentum, case.coefficients)
    for step in range(STEPS):
        with watch, watch.ignoring():
            for p, gradient in zip(parameters, case.gradients(step), strict=True):
                p.grad = gradient
            before = [p.detach().clone() for p in parameters]
        known = [*parameters, *(p.grad for p in parameters)]
        axis.begin()
        with Transfers() as transfers, Products() as products, ByHand(), watch:
            optimizer.step()
        known += [p.grad for p in parameters if p.grad is not None]
        watch.follow(known)
        kept = watch.now() - storage_bytes(known) if step == STEPS - 1 else 0
        yield _facts(case, step, parameters, before, kept, products, axis, transfers)


def _moved(came: Tensor, then: Tensor, want: Tensor) -> Look:
    """How the way from `then` looks; who should stay must stay exactly."""
    if torch.equal(then, want):
        finite = bool(came.isfinite().all())
        kind = "right" if torch.equal(came, then) else "value" if finite else "not-finite"
        return Look(kind, 0.0 if kind == "right" else inf)
    return look(came - then, want - then, TOLERANCE)


def _facts(
    case: Case,
    step: int,
    parameters: Sequence[Tensor],
    before: Sequence[Tensor],
    kept: int,
    products: Products,
    axis: OwnersAxis,
    transfers: Transfers,
) -> Facts:
    came = [p.detach() for p in parameters]

    def looks(mistake: str) -> list[Look]:
        then, want = weights(case, mistake)[step : step + 2]
        return [_moved(*tensors) for tensors in zip(came, then, want, strict=True)]

    digest = hashlib.sha256(b"".join(c.numpy().tobytes() for c in came)).hexdigest()
    wire = sum(sent.wire_bytes for sent in axis.sent)
    return Facts(
        looks("right"),
        [m for m in MISTAKES if all(one.kind == "right" for one in looks(m))],
        [torch.equal(c, b) for c, b in zip(came, before, strict=True)],
        digest,
        products.count,
        products.flops,
        kept,
        see(axis, transfers),
        wire,
    )
