"""Exercise 1: first weights that keep a signal level, judged by what comes out of two depths."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....i18n import t
from ...activations import ACTIVATIONS
from ..exercise import Column, Exercise
from ..verdict import Failure

SHALLOW, DEEP = 9, 40
# how far from level a right rule may stray by chance: factors of the mean square
TOLERANCE = {SHALLOW: 2.5, DEEP: 6.0}
DRIFT = 40.0  # a wrong width in every second layer strays further: (22/8)⁴ at the least
DRAWS = 4  # independent networks, averaged


class Case(NamedTuple):
    """Layers of widths n, m, n, m, … with an activation between them."""

    act: str
    n: int = 192
    m: int = 768
    seed: int = 0

    def __str__(self) -> str:
        return t(
            f"activation {self.act}, widths {self.n}, {self.m}, …",
            f"激活函数 {self.act}，宽度 {self.n}、{self.m}……",
        )


class Facts(NamedTuple):
    """Mean squares of the sums before the activation: in layer 1, and in the two depths; or what
    is wrong with the form, as words."""

    first: float
    depths: dict[int, float]
    form: str = ""


def judge(case: Case, facts: list[Facts], _: int = 0) -> Failure | None:
    """The form, then the level in layer 1, then at both depths."""
    found = facts[0]
    if found.form:
        words = t("a tensor (n_out, n_in) of floats.", "形状为 (n_out, n_in) 的浮点张量。")
        return Failure("weights.form", words, found.form)
    if not 0.7 < found.first < 1.4:
        words = t(
            "sums of mean square 1 in layer 1: the activation was given numbers of mean square 1.",
            "第 1 层求和之后均方为 1：交给激活函数的数均方就是 1。",
        )
        return Failure("level.first", words, f"{found.first:.3g}")
    for depth, limit in TOLERANCE.items():
        ratio = found.depths[depth] / found.first
        if not (isfinite(ratio) and 1 / limit < ratio < limit):
            words = t(
                f"layer {depth} within a factor of {limit:g} of layer 1.",
                f"第 {depth} 层与第 1 层相差不超过 {limit:g} 倍。",
            )
            little = depth == SHALLOW and 1 / DRIFT < ratio < DRIFT
            return Failure("level.kept" if little else f"level.{depth}", words, f"{ratio:.3g} ×")
    return None


def ask(answer: Callable[..., Any], case: Case) -> Facts:
    """Send a signal through networks of the answer's weights."""
    act, squares = ACTIVATIONS[case.act], [0.0] * (DEEP + 1)
    for draw in range(DRAWS):
        generator = torch.Generator().manual_seed(1000 * case.seed + draw)
        a = act(torch.randn(64, case.n, generator=generator))
        for layer in range(1, DEEP + 1):
            shape = (case.m, case.n) if layer % 2 else (case.n, case.m)
            weights = answer(shape[1], shape[0], act, generator)
            form = _form(weights, shape)
            if form:
                return Facts(0.0, {}, form)
            y = a @ weights.detach().float().T
            squares[layer] += y.square().mean().item() / DRAWS
            a = act(y)
    return Facts(squares[1], {depth: squares[depth] for depth in TOLERANCE})


def _form(weights: Any, shape: tuple[int, int]) -> str:
    if not isinstance(weights, Tensor):
        return type(weights).__name__
    if tuple(weights.shape) != shape or not weights.is_floating_point():
        return f"{tuple(weights.shape)}, {weights.dtype}"
    return ""


def draw(random: Random) -> list[Case]:
    """Every activation, widths and seeds of their own."""
    return [
        Case(act, 32 * random.randint(6, 8), 32 * random.randint(22, 26), random.randint(1, 10**4))
        for act in ACTIVATIONS
    ]


def _depth(depth: int) -> Callable[..., str]:
    return lambda _, told: f"{told[0][0].depths[depth]:.2f}"


EXERCISE = Exercise(
    check="first_weights",
    answer="first_weights",
    lab="lab11",
    ask=ask,
    judge=judge,
    columns=(
        Column("activation", "激活函数", lambda case, _: case.act),
        Column("mean square, layer 1", "第 1 层的均方", lambda _, told: f"{told[0][0].first:.2f}"),
        *(Column(f"layer {d}", f"第 {d} 层", _depth(d)) for d in TOLERANCE),
    ),
    visible=[Case(act) for act in ACTIVATIONS],
    draw=draw,
)
