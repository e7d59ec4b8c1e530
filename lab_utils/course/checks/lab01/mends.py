"""Exercise 3: three slow parts of a step, mended. The seconds of both, taken turn by turn in the
same minute, judge; and the values, which must be as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ....i18n import t
from ....measure.roofline import fastest
from ....parallel.comm import Axis
from ....parallel.ledger import Ledger
from ....parallel.slow_link import SlowLink
from ..exercise import Column, Exercise
from ..ranks import begin_case, saw
from ..verdict import Failure
from . import slow

# seconds before ÷ seconds after that a mend has to reach: half of what a plain one does on an idle
# core, so that a busy one does not turn a right answer down
AT_LEAST = {"update": 1.5, "activate": 1.25, "summed": 2.0}
TURNS, WIRE_BYTES_PER_SECOND = 3, 20e6


class Case(NamedTuple):
    """One of the three parts, on numbers drawn from `seed`; `size`: tensors, elements in units of
    2**20, micro-batches."""

    part: str
    size: int
    seed: int

    @property
    def ranks(self) -> int:
        """`summed` needs two."""
        return 2 if self.part == "summed" else 1

    def __str__(self) -> str:
        return {
            "update": t(f"update: {self.size:,} tensors", f"update：{self.size:,} 个张量"),
            "activate": t(f"activate: {4 * self.size} MiB", f"activate：{4 * self.size} MiB"),
            "summed": t(f"summed: {self.size} micro-batches", f"summed：{self.size} 个微批次"),
        }[self.part]


class Facts(NamedTuple):
    """Whether the part was there; the largest difference from the slow one's result (absolute, NaN
    counts as infinite); seconds before ÷ after; bytes sent before and after."""

    there: bool
    difference: float
    ratio: float
    sent: tuple[int, int]
    kept: bool = True  # the gradients that it was given


def run(answer: Any, cases: Sequence[Case], patience: float) -> None:
    """Compare each case's part with the slow one."""
    torch.set_num_threads(1)
    for number, case in enumerate(cases):
        axis = _axis() if case.ranks > 1 else None
        begin_case(number, patience, axis)
        mended = getattr(answer, case.part, None)
        if not callable(mended):
            saw(number, Facts(False, 0.0, 0.0, (0, 0)))
            continue
        compare = {"update": _update, "activate": _activate, "summed": _summed}[case.part]
        saw(number, compare(mended, case, axis))


def _axis() -> SlowLink:
    ranks = list(range(dist.get_world_size()))
    axis = Axis("dp", ranks, dist.get_rank(), dist.group.WORLD, Ledger())
    return SlowLink(axis, WIRE_BYTES_PER_SECOND)


def _turns(before: Callable[[], Any], after: Callable[[], Any], least: float = 0.05) -> float:
    """The middle one of the ratios of several turns."""
    return median(fastest(before, least) / fastest(after, least) for _ in range(TURNS))


def _difference(came: Sequence[Any], right: Sequence[Tensor]) -> float:
    """Infinite for what is no tensor of the right shape."""
    worst = 0.0
    for one, other in zip(came, right, strict=True):
        if not isinstance(one, Tensor) or one.shape != other.shape:
            return float("inf")
        apart = (one - other).abs().max().item()
        worst = max(worst, apart if apart < float("inf") else float("inf"))
    return worst


def _update(mended: Callable[..., Any], case: Case, _: Axis | None) -> Facts:
    draw = torch.Generator().manual_seed(case.seed)
    first, gradients = (
        [torch.randn(256, generator=draw) for _ in range(case.size)] for _ in range(2)
    )
    right, came = ([x.clone() for x in first] for _ in range(2))
    slow.update(right, gradients, 0.1)
    given = [x.clone() for x in gradients]
    mended(came, given, 0.1)
    difference, kept = _difference(came, right), _difference(given, gradients) == 0
    ratio = _turns(lambda: slow.update(right, gradients, 0.0), lambda: mended(came, gradients, 0.0))
    return Facts(True, difference, ratio, (0, 0), kept)


def _activate(mended: Callable[..., Any], case: Case, _: Axis | None) -> Facts:
    draw = torch.Generator().manual_seed(case.seed)
    # one more than a round number: the last piece is not as long as the others
    came = torch.randn(case.size * 2**20 + 1, generator=draw)
    right = came.clone()
    slow.activate(right)
    mended(came)
    difference = _difference([came], [right])
    return Facts(
        True, difference, _turns(lambda: slow.activate(right), lambda: mended(came)), (0, 0)
    )


def _summed(mended: Callable[..., Any], case: Case, axis: Axis | None) -> Facts:
    draw = torch.Generator().manual_seed(case.seed + axis.rank)
    gradients = [torch.randn(2**16, generator=draw) for _ in range(case.size)]
    right = slow.summed(axis, [x.clone() for x in gradients])
    given = [x.clone() for x in gradients]
    difference = _difference([mended(axis, given)], [right])
    kept = _difference(given, gradients) == 0
    ratios, sent = [], (0, 0)
    for _ in range(TURNS):
        took = []
        for way in (slow.summed, mended):
            axis.ledger.clear()
            copies, began = [x.clone() for x in gradients], perf_counter()
            way(axis, copies)
            took.append((perf_counter() - began, sum(c.wire_bytes for c in axis.ledger.calls)))
        (before, sent_before), (after, sent_after) = took
        ratios.append(before / after)
        sent = sent_before, sent_after
    return Facts(True, difference, median(ratios), sent, kept)


def judge(case: Case, told: list[Facts], _: int = 0) -> Failure | None:
    """There; the same values; quicker by what the cure of this cause gives."""
    if not all(f.there for f in told):
        expected = t(f"a function {case.part} in the class", f"类里要有函数 {case.part}")
        return Failure("mend.missing", expected, t("there is none.", "没有。"))
    difference = max(f.difference for f in told)
    if not difference <= 1e-3:
        expected = t("the same numbers as before.", "与原来相同的数。")
        came = t(f"off by up to {difference:.3g}.", f"最多相差 {difference:.3g}。")
        return Failure("mend.values", expected, came)
    if not all(f.kept for f in told):
        expected = t("the gradients stay as they are.", "传入的梯度保持不变。")
        return Failure("mend.kept", expected, t("they were changed.", "它们被改动了。"))
    ratio, least = min(f.ratio for f in told), AT_LEAST[case.part]
    if not ratio >= least:
        expected = t(
            f"seconds before ÷ after: at least {least}.", f"之前 ÷ 之后的秒数：至少 {least}。"
        )
        return Failure(f"mend.{case.part}", expected, f"{ratio:.2f}")
    return None


def draw(random: Random) -> list[Case]:
    """Other sizes."""
    return [
        Case("update", random.randint(1000, 4000), random.randint(1, 10**6)),
        Case("activate", random.randint(24, 40), random.randint(1, 10**6)),
        Case("summed", random.randint(4, 8), random.randint(1, 10**6)),
    ]


def _sent(_: Case, told: list[list[Facts]]) -> str:
    before, after = told[0][0].sent
    return f"{before:,} → {after:,}" if before else "–"


EXERCISE = Exercise(
    check="mend",
    answer="Mended",
    lab="lab01",
    run=run,
    judge=judge,
    columns=(
        Column("part", "部分", lambda case, _: str(case)),
        Column(
            "before ÷ after", "之前 ÷ 之后", lambda _, told: f"{min(f.ratio for f in told[0]):.1f}"
        ),
        Column("bytes sent", "发送的字节数", _sent),
    ),
    visible=(Case("update", 2048, 1), Case("activate", 32, 2), Case("summed", 4, 3)),
    draw=draw,
)
