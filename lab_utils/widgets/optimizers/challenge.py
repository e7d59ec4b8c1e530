"""The challenge of the optimizer race: a valley whose axes are not the weights' own, a comparison
that cheats, and one that does not."""

from __future__ import annotations

from collections.abc import Sequence

from ...i18n import t
from ..frame.challenge import Need, Step, given
from ..frame.controls import Control, State
from ..frame.units import percent
from .costs import bytes_of
from .race_scene import BEST, lower_in
from .recorded import NAMES, SEEDS
from .valley_scene import left

VALLEY, RACE = ("rule", "level", "mixed", "step"), ("a", "b", "rate")
THOUSANDTH, SHARE = 1e-3, 0.6


def steps(controls: Sequence[Control]) -> tuple[Step, ...]:
    """Through the mixed valley; SGD before AdamW; fewer bytes and a lower loss."""
    return (
        Step(
            task=(
                "Lower panel, inputs mixed: a thousandth of the first loss after 60 steps.",
                "下面的图，混合输入：60 步之后，损失降到最初的千分之一。",
            ),
            needs=(given(controls, mixed=True, step=60), Need(controls=VALLEY, far=_too_high)),
            why=(
                "SGD, momentum and Muon do not care how the inputs are turned, but for rounding;"
                " SGD is only too slow. Adam and Lion go weight by weight: once it is mixed, none"
                " of their rates gets there.",
                "SGD、动量和 Muon 不在乎输入怎样旋转（只差舍入），SGD 只是太慢。"
                "Adam 和 Lion 逐个权重走：混合之后，它们的学习率没有一个能到达。",
            ),
            solution={"rule": "momentum", "level": 3, "mixed": True, "step": 60},
        ),
        Step(
            task=(
                "Upper panel: be unfair. Let SGD end lower than AdamW in all three seeds.",
                "上面的图：不公平一次，让 SGD 在三个种子里都低于 AdamW。",
            ),
            needs=(Need(controls=RACE, far=_sgd_not_ahead),),
            why=(
                "Nobody cheated in the runs. AdamW's rate was simply not tuned: that is all it"
                " takes for a wrong comparison.",
                "运行本身没有作假，只是没有给 AdamW 调学习率。一次错误的比较，这样就够了。",
            ),
            solution={"a": "sgd", "b": "adamw", "rate": 0},
        ),
        Step(
            task=(
                "Each at its best rate: find an optimizer that keeps at most 60 % of AdamW's bytes"
                " and ends lower in all three seeds.",
                "各用自己最好的学习率：找一个状态不超过 AdamW 的 60 %，"
                "而且在三个种子里都更低的优化器。",
            ),
            needs=(
                Need(controls=("a",), far=_too_many_bytes),
                given(controls, b="adamw", rate=BEST),
                Need(controls=RACE, far=_not_ahead),
            ),
            why=(
                "Same number of rates for each, and the spread of the seeds on the table. What it"
                " shows is this model after 200 steps; of Muon a smaller lead is reported at larger"
                " scale (Wen et al. 2025).",
                "每个优化器试同样多的学习率，并且摆出种子之间的差别。"
                "它说明的只是这个模型的 200 步；规模更大时，据报告 Muon 的领先要小一些"
                "（Wen 等 2025）。",
            ),
            solution={"a": "muon", "b": "adamw", "rate": BEST},
        ),
    )


def _too_high(state: State, lang: str) -> str | None:
    share = left(*(state[name] for name in VALLEY))
    if share <= THOUSANDTH:
        return None
    return t(
        f"{percent(share)} of the first loss is left, {percent(THOUSANDTH)} allowed.",
        f"损失还剩最初的 {percent(share)}，上限 {percent(THOUSANDTH)}。",
        lang,
    )


def _sgd_not_ahead(state: State, lang: str) -> str | None:
    pair = {"a": "sgd", "b": "adamw"}
    far = _not_ahead({**state, **pair}, lang)
    if far is None and any(state[side] != name for side, name in pair.items()):
        return t(
            f"with this rate in all {len(SEEDS)} seeds, but blue must be SGD and red AdamW.",
            f"这个学习率下 {len(SEEDS)} 个种子都是如此，但蓝要选 SGD，红要选 AdamW。",
            lang,
        )
    return far


def _not_ahead(state: State, lang: str) -> str | None:
    first, _ = lower_in(state)
    if first == len(SEEDS):
        return None
    a, b = NAMES[state["a"]], NAMES[state["b"]]
    return t(
        f"{a} ends lower than {b} in {first} of {len(SEEDS)} seeds.",
        f"{len(SEEDS)} 个种子里，{a} 在 {first} 个上低于 {b}。",
        lang,
    )


def _too_many_bytes(state: State, lang: str) -> str | None:
    share = bytes_of(state["a"]).each / bytes_of("adamw").each
    if share <= SHARE:
        return None
    return t(
        f"{NAMES[state['a']]} keeps {100 * share:.0f} % of AdamW's bytes, {100 * SHARE:.0f} %"
        " allowed.",
        f"{NAMES[state['a']]} 的状态是 AdamW 的 {100 * share:.0f} %，上限 {100 * SHARE:.0f} %。",
        lang,
    )
