"""Exercise 1: the roof that a set of measured dots implies."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite
from random import Random
from typing import Any, NamedTuple

import torch

from ....i18n import t
from ....measure.roofline import Dot, fastest
from ..exercise import Column, Exercise
from ..verdict import Failure

SLACK = 1e-6


class Case(NamedTuple):
    """Dots drawn from `seed` under a roof of their own; seed 0: kernels measured here and now."""

    seed: int
    kernels: int

    def __str__(self) -> str:
        if not self.seed:
            return t("kernels measured on this machine", "在本机上实测的内核")
        return t(f"recorded kernels: {self.kernels}", f"记录下来的内核：{self.kernels} 个")

    def dots(self) -> list[Dot]:
        """What the answer is given."""
        return list(_here() if not self.seed else _drawn(self.seed, self.kernels))


@cache  # a launch may have many answers
def _here() -> tuple[Dot, ...]:
    # far above the last-level cache: around its size no rate is either memory's or the cache's
    square, numbers = torch.randn(256, 256), torch.ones(2**25)
    product, doubled = torch.empty_like(square), torch.empty_like(numbers)
    multiply = fastest(lambda: torch.mm(square, square, out=product), 0.03)
    double = fastest(lambda: torch.mul(numbers, 2.0, out=doubled), 0.03)
    return (
        Dot("product", 2 * 256**3, 12 * 256**2, multiply),
        Dot("double", numbers.numel(), 2 * numbers.nbytes, double),
    )


def _drawn(seed: int, kernels: int) -> tuple[Dot, ...]:
    """Each kernel reaches between 30 and 95 % of its roof."""
    draw = Random(seed)
    arithmetic, memory = draw.uniform(5e10, 5e12), draw.uniform(1e10, 2e11)
    found = []
    for number in range(kernels):
        intensity = (arithmetic / memory) * 10 ** draw.uniform(-2, 2)
        nbytes, share = draw.uniform(1e6, 1e9), draw.uniform(0.3, 0.95)
        rate = share * min(arithmetic, intensity * memory)
        flops = intensity * nbytes
        found.append(Dot(f"kernel {number}", flops, nbytes, flops / rate))
    return tuple(found)


class Facts(NamedTuple):
    """What came back, and the two rates that the dots imply."""

    came: str
    rates: tuple[float, float] | None
    right: tuple[float, float]


def ask(answer: Callable[[list[Dot]], Any], case: Case) -> Facts:
    """The roof of a case, by the answer and by its dots."""
    dots = case.dots()
    right = (
        max(dot.flops / dot.seconds for dot in dots),
        max(dot.nbytes / dot.seconds for dot in dots),
    )
    came = answer(dots)
    return Facts(f"{came!r:.100}", _pair(came), right)


def _pair(came: Any) -> tuple[float, float] | None:
    try:
        first, second = map(float, came)
    except (TypeError, ValueError):
        return None
    return (first, second) if isfinite(first) and isfinite(second) else None


def judge(case: Case, told: list[Facts], _: int = 0) -> Failure | None:
    """Two rates; no dot above the roof; no roof higher than what a dot proves."""
    facts = told[0]
    if facts.rates is None:
        expected = t("two finite numbers: FLOP/s and bytes/s.", "两个有限的数：FLOP/s 与字节/秒。")
        return Failure("roof.pair", expected, facts.came)
    names = (t("arithmetic", "算术"), t("memory", "内存"))
    for name, rate, right in zip(names, facts.rates, facts.right, strict=True):
        if rate < right * (1 - SLACK):
            expected = t(
                f"no kernel above the roof; one reached {right:.3g} a second of {name}.",
                f"没有内核超出屋顶线；有一个内核的{name}速率达到每秒 {right:.3g}。",
            )
            return Failure("roof.pierced", expected, f"{rate:.3g}")
        if rate > right * (1 + SLACK):
            expected = t(
                f"what a kernel has proved: at most {right:.3g} a second of {name}.",
                f"以内核实际达到的为准：{name}每秒最多 {right:.3g}。",
            )
            return Failure("roof.unproved", expected, f"{rate:.3g}")
    return None


def draw(random: Random) -> list[Case]:
    """Few kernels and many."""
    return [Case(random.randint(1, 10**6), random.randint(1, 40)) for _ in range(8)]


EXERCISE = Exercise(
    check="fit_roof",
    answer="fit_roof",
    lab="lab01",
    ask=ask,
    judge=judge,
    columns=(
        Column("dots", "点", lambda case, _: str(case)),
        Column("GFLOP/s", "GFLOP/s", lambda _, told: f"{told[0][0].rates[0] / 1e9:.1f}"),
        Column("GB/s", "GB/s", lambda _, told: f"{told[0][0].rates[1] / 1e9:.1f}"),
    ),
    visible=(Case(0, 2), Case(11, 1), Case(12, 6), Case(13, 30)),
    draw=draw,
)
