"""Exercise 3: which layers to compute twice, so that a step fits a budget with the least work: the
verdict."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from ....i18n import t
from ..exercise import Column, Exercise
from ..verdict import Failure
from .alone import ended, judged
from .plans_run import Case, Cost, Facts, Model, ask, frontier

UNEVEN = Model((8, 16, 8, 12, 8, 16, 8), (32, 8, 24, 40, 16, 24), seed=1)
WIDE_AND_NARROW = Model((24, 8, 32, 8, 16, 24, 8, 16), (16, 48, 8, 32, 56, 24, 40), seed=2)
EQUAL = Model((16,) * 9, (32,) * 8, seed=3)


def judge(case: Case, f: Facts) -> Failure | None:
    """The form of the plan, whether it fits where it was carried out, and whether another one fits
    with less work."""
    if f.malformed:
        return Failure(
            "plan.form",
            t(
                "a list of (begin, end): segments of layers begin to end − 1, in order, without"
                " overlap; [] recomputes nothing.",
                "由 (begin, end) 组成的列表：每段是第 begin 到 end − 1 层，"
                "按次序、不重叠；[] 表示不做重计算。",
            ),
            t(f"{f.returned}: {f.malformed}.", f"{f.returned}：{f.malformed}。"),
        )
    if f.gave_up:
        return (
            None
            if f.best is None
            else Failure(
                "gave-up",
                t("a plan: there is one that fits.", "应返回方案：有方案放得下。"),
                t("None: nothing was found.", "None：没有找到。"),
            )
        )
    return _too_much(case, f.cost, f) or _too_often(case, f.cost, f)


def _too_much(case: Case, cost: Cost, f: Facts) -> Failure | None:
    if cost.peak <= case.budget:
        return None
    expected = t(
        f"never more than {case.budget:,} bytes saved for backward, in forward or in backward.",
        f"不管前向还是反向，为反向传播保存的张量都不超过 {case.budget:,} 字节。",
    )
    if f.best is None:
        expected = t(
            f"None: no plan needs less than {f.least_peak:,} bytes.",
            f"None：没有哪个方案能少于 {f.least_peak:,} 字节。",
        )
    came = t(
        f"{f.returned}, carried out: {cost.forward_peak:,} bytes when forward is over,"
        f" {cost.peak:,} at the most, in backward.",
        f"执行 {f.returned}：前向结束时 {cost.forward_peak:,} 字节，"
        f"反向中最多 {cost.peak:,} 字节。",
    )
    return Failure(
        "peak.forward" if cost.forward_peak > case.budget else "peak.backward", expected, came
    )


def _too_often(case: Case, cost: Cost, f: Facts) -> Failure | None:
    if cost.recomputed_flops <= f.best.recomputed_flops:
        return None
    return Failure(
        "flops",
        t(
            "the least work that fits: a plan was tried that recomputes"
            f" {f.best.recomputed_flops:,} FLOPs and takes {f.best.peak:,} bytes.",
            f"在放得下的前提下重计算最少：有一个放得下的方案只重计算 {f.best.recomputed_flops:,}"
            f" FLOPs，占用 {f.best.peak:,} 字节。",
        ),
        t(
            f"{f.returned} recomputes {cost.recomputed_flops:,} FLOPs and takes {cost.peak:,}"
            " bytes.",
            f"{f.returned} 重计算 {cost.recomputed_flops:,} FLOPs，占用 {cost.peak:,} 字节。",
        ),
    )


def _model(draw: Random, layers: int) -> Model:
    widths = tuple(8 * draw.randint(1, 4) for _ in range(layers + 1))
    inner = tuple(8 * draw.randint(1, 7) for _ in range(layers))
    return Model(widths, inner, draw.randint(1, 10**6))


def draw(random: Random) -> list[Case]:
    """For each of two chains: budgets along what its plans make possible, tight ones first; then
    all of it, and less than the least."""
    cases: list[Case] = []
    for layers in (random.randint(5, 6), random.randint(6, 7)):
        model = _model(random, layers)
        peaks = [peak for peak, _, _ in frontier(model)]
        cases += [
            Case(model, peaks[0] + random.choice([0, 4])),
            Case(model, random.choice(peaks[1:-1]) + random.choice([0, 4])),
        ]
    return [*cases, Case(model, peaks[-1], "no-need"), Case(model, peaks[0] - 4, "nothing-fits")]


def _lines(_: Any) -> tuple[str]:
    sentence = t(
        "Bytes were measured while the plan was carried out on real layers; no other plan that fits"
        " recomputes less.",
        "字节数是在真实的层上执行方案时测得的；在放得下的方案里，没有哪个重计算得更少。",
    )
    return (sentence,)


def _cost(en: str, zh: str, number: Callable[[Cost], int]) -> Column:
    def value(_: Case, told: Any) -> str:
        cost = told[0][0].cost
        return "—" if cost is None else f"{number(cost):,}"

    return Column(en, zh, value)


EXERCISE = Exercise(
    check="plan_checkpoints",
    answer="plan_checkpoints",
    lab="lab03",
    ask=ask,
    judge=judged(judge),
    columns=(
        Column("layers", "层数", lambda case, _: len(case.model.inner)),
        Column("budget, bytes", "预算（字节）", lambda case, _: f"{case.budget:,}"),
        Column("your plan", "你的方案", lambda _, told: told[0][0].returned),
        _cost("when forward is over", "前向结束时", lambda cost: cost.forward_peak),
        _cost("at the most in the whole step", "整个一步中最多时", lambda cost: cost.peak),
        Column("if all is kept", "全部保存时", lambda _, told: f"{told[0][0].keep_all:,}"),
        _cost("FLOPs recomputed", "重计算的 FLOPs", lambda cost: cost.recomputed_flops),
    ),
    visible=(
        Case(UNEVEN, 12_000),
        Case(UNEVEN, 10_200),
        Case(UNEVEN, 6_912),
        Case(WIDE_AND_NARROW, 11_264),
        Case(WIDE_AND_NARROW, 26_000),
        Case(EQUAL, 14_000),
        Case(EQUAL, 40_960, "no-need"),
        Case(UNEVEN, 6_911, "nothing-fits"),
    ),
    draw=draw,
    lines=_lines,
    ended=ended,
)
